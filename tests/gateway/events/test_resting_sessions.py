"""Sessions in which nothing happens: a hub keeps nothing of them, and their sealing is no news."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import Ledger
from ledger.testing import TestClock
from tests.gateway.events.test_beginnings import following, quiet_sessions, until_told
from tests.support.archives import seal_all
from workers.gateway.events import hub as hub_module
from workers.gateway.events.beginnings import CLOCK_MARGIN_MS
from workers.gateway.events.hub import Hub


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
        (seal,) = await ledger.store.admin.seals([session.stream.key])
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
    monkeypatch.setattr(hub_module, "FOLLOWERS_COUNT", 2)
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
