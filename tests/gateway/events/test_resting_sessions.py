"""Sessions in which nothing happens: a hub keeps nothing of them, and their sealing is no news."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from ledger import Ledger
from ledger.log.fold_room import STREAM_BYTES
from ledger.session.state import SETTLED_PACKING
from ledger.stores.port import Entry
from ledger.testing import TestClock
from projections.engine import Engine
from tests.gateway.events.test_beginnings import following, quiet_sessions, until_told
from tests.support.archives import seal_all
from tests.support.snapshots import write_snapshots_every
from tests.support.store_calls import seals
from workers.gateway.events import hub as hub_module
from workers.gateway.events.beginnings import CLOCK_MARGIN_MS
from workers.gateway.events.follower import Follower
from workers.gateway.events.hub import Hub

SESSION_BYTES: Final = STREAM_BYTES + 4 * SETTLED_PACKING.whole_bytes
"""The room that a session of these tests takes at its end."""


async def until_compared(hub: Hub) -> None:
    assert await hub._compare_feeds()
    await hub._settle_reads()


async def test_neither_sealing_nor_bringing_back_tells_of_events_that_happened_before(
    ledger: Ledger, clock: TestClock, tmp_path: Path
) -> None:
    (session,) = await quiet_sessions(ledger, 1)
    clock.advance("1h")
    async with following(ledger) as hub:
        archive = await seal_all(ledger, tmp_path / "archive")
        await until_compared(hub)
        assert hub.told() == {}
        (seal,) = await seals(ledger.store, [session.stream.key])
        assert seal is not None
        hub._share = 1.0
        await archive.restore(session.stream.key, seal)
        await until_compared(hub)
        assert hub.told() == {}
        await session.ask("bash", ["make"])
        await until_told(hub, {"ses_0": 3})
        await until_compared(hub)
        assert hub.told() == {"ses_0": [3]}


@pytest.mark.parametrize("share", [0.0, 1.0])
async def test_an_event_that_brings_its_session_back_is_told_alone(
    ledger: Ledger, clock: TestClock, tmp_path: Path, share: float
) -> None:
    (session,) = await quiet_sessions(ledger, 1)
    clock.advance("1h")
    async with following(ledger, share) as hub:
        await seal_all(ledger, tmp_path / "archive")
        await session.ask("bash", ["make"])
        await until_compared(hub)
        await until_told(hub, {"ses_0": 3})
        assert hub.told() == {"ses_0": [3]}


@pytest.mark.parametrize("share", [0.0, 1.0])
async def test_a_hub_keeps_nothing_of_sessions_that_rest_and_tells_each_event_once(
    ledger: Ledger, clock: TestClock, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "room_of", lambda _: 2 * SESSION_BYTES)
    sessions = await quiet_sessions(ledger, 8)
    async with following(ledger, share) as hub:
        for _ in range(3):
            for session in sessions:
                await session.ask("bash", ["make"])
            await until_compared(hub)
            assert len(hub.heads) == len(sessions)
            await hub._compare()
            assert len(hub.heads) == len(sessions), "their events are not older than the margin of the clocks"
            clock.advance(2 * CLOCK_MARGIN_MS)
            await hub._compare()
            await until_compared(hub)
            assert set(hub.heads) == set(hub.followers)
            assert len(hub.heads) <= 3
        await until_told(hub, {session.id: 5 for session in sessions})
        assert hub.told() == {session.id: [3, 4, 5] for session in sessions}


async def test_a_long_session_that_was_dropped_goes_on_from_its_snapshot(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_snapshots_every(4, monkeypatch, hub_module)
    (session,) = await quiet_sessions(ledger, 1)
    for _ in range(6):
        await session.ask("bash", ["make"])
    key = session.stream.key
    await Engine(ledger.store).catch_up(key)
    before = (await session.state()).version
    passed: list[int] = []
    pass_over = Follower.pass_over

    def noted(self: Follower, entries: Iterable[Entry]) -> None:
        some = list(entries)
        passed.extend(one.version for one in some)
        pass_over(self, some)

    async with following(ledger, 1.0) as hub:
        await session.ask("bash", ["make"])
        await until_told(hub, {"ses_0": before + 1})
        hub.followers.drop(key)
        monkeypatch.setattr(Follower, "pass_over", noted)
        await session.ask("bash", ["make"])
        await until_told(hub, {"ses_0": before + 2})
        assert hub.told() == {"ses_0": [before + 1, before + 2]}
    assert passed
    assert min(passed) > 4, "the entries before the snapshot are not read"
