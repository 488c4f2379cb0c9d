"""A hub begins with each stream where it was when the hub began, and reads nothing of streams that nothing happens in."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import BytesIO

import pytest

from ledger import Ledger, Session
from ledger.core.events import Actor
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.port import StreamKey, WakeUp
from ledger.testing import TestClock
from tests.gateway.test_scrape_costs import commands_of
from tests.support.store_calls import positions
from tests.support.waiting import wait_until_async
from workers.gateway.events import hub as hub_module
from workers.gateway.events.beginnings import CLOCK_MARGIN_MS
from workers.gateway.events.hub import Hub
from workers.gateway.events.ring import Ring
from workers.presentation.text import json_line
from workers.upkeep.stream_checks import check_stream
from workers.upkeep.transfer import Exported, export_stream, footer, header, mark, read_export, restore_stream

RULES = [{"permission": "bash", "pattern": "*", "action": "allow"}]
SESSIONS = 12
ASKS = 15


class LossyHub(Hub):
    """A hub that gets a share of its wake-ups only, and keeps all that it published."""

    def __init__(self, ledger: Ledger, share: float) -> None:
        super().__init__(ledger)
        self.ring = Ring(sys.maxsize)
        self._share = share
        self._chance = random.Random()

    def _woken(self, wake_up: WakeUp) -> None:
        if self._chance.random() < self._share:
            super()._woken(wake_up)

    def told(self) -> dict[str, list[int]]:
        """Return the versions that were published of each session, in order."""
        found = self.ring.since(0, self.ring.end)
        assert found is not None
        told = defaultdict(list)
        for frame in [item.frame for item in found]:
            if frame is not None and frame.part == frame.parts:
                told[frame.key.id].append(frame.at.version)
        return dict(told)


@asynccontextmanager
async def following(ledger: Ledger, share: float = 0.0) -> AsyncIterator[LossyHub]:
    hub = LossyHub(ledger, share)
    try:
        await hub.follow_all()
        yield hub
    finally:
        await hub.close()


async def until_told(hub: LossyHub, wanted: dict[str, int]) -> None:
    """Wait until these versions are published."""

    async def are_told() -> bool:
        told = hub.told()
        return all(told.get(session, [0])[-1] >= version for session, version in wanted.items())

    await wait_until_async(are_told, "the events to be published")


async def quiet_sessions(ledger: Ledger, count: int) -> list[Session]:
    found = [await ledger.session(f"ses_{number}", rules=RULES) for number in range(count)]
    for session in found:
        await session.ask("bash", ["ls"])
    return found


async def test_the_start_costs_the_same_whatever_the_number_of_sessions(ledger: Ledger) -> None:
    costs = []
    for count in (3, 60):
        await quiet_sessions(ledger, count)

        async def start() -> None:
            async with following(ledger):
                pass

        costs.append(await commands_of(ledger, start))
    # A page of keys, or the heads of streams, would be more.
    assert costs[1] <= costs[0]


async def test_all_entries_of_the_first_append_are_published(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "VERIFY_SECONDS", 0.05)
    (session,) = await quiet_sessions(ledger, 1)
    async with following(ledger) as hub:
        await asyncio.gather(*(session.ask("bash", [f"make {number}"]) for number in range(ASKS)))
        await until_told(hub, {"ses_0": 2 + ASKS})
        assert hub.told() == {"ses_0": list(range(3, 3 + ASKS))}


async def test_a_later_wake_up_brings_the_events_whose_own_was_lost(ledger: Ledger) -> None:
    (session,) = await quiet_sessions(ledger, 1)
    async with following(ledger) as hub:
        await session.ask("bash", ["make"])
        hub._share = 1.0
        await session.ask("bash", ["make install"])
        await until_told(hub, {"ses_0": 4})
        assert hub.told() == {"ses_0": [3, 4]}


@pytest.mark.slow
async def test_where_a_feed_dropped_lines_a_quiet_session_goes_on_by_time(ledger: Ledger, clock: TestClock) -> None:
    quiet, *others = await quiet_sessions(ledger, 2)
    clock.advance(CLOCK_MARGIN_MS + 1)
    own = StreamKey("session", "ses_0").partition(ledger.store.partition_count)
    names = (f"busy_{number}" for number in range(100_000))
    name = next(one for one in names if StreamKey("session", one).partition(ledger.store.partition_count) == own)
    async with following(ledger) as hub:
        await quiet.ask("bash", ["make"])
        busy = await ledger.session(name, rules=RULES)
        await asyncio.gather(*(busy.submit("bash", [f"ls {number}"]) for number in range(50)))
        for number in range(FEED_LENGTH_COUNT):
            await busy.submit("bash", [f"ls {number}"])
        hub._share = 1.0
        await quiet.ask("bash", ["make install"])
        await until_told(hub, {"ses_0": 4, name: 51 + FEED_LENGTH_COUNT})
        assert hub.told()["ses_0"] == [3, 4]
        assert hub.told()[name] == list(range(1, 52 + FEED_LENGTH_COUNT))
        # All streams were compared, and the feeds' lines are read again from there.
        hub._share = 0.0
        await others[0].ask("bash", ["make"])
        hub._share = 1.0
        await others[0].ask("bash", ["make install"])
        await until_told(hub, {"ses_1": 4})
        assert hub.told()["ses_1"] == [3, 4]


async def test_an_imported_session_is_published_whole(ledger: Ledger) -> None:
    exported = await _exported_elsewhere()
    async with following(ledger, 1.0) as hub:
        marked = mark(exported.entries, Actor("local", "ann"), 0, await ledger.store.now_ms())
        await restore_stream(ledger.store, exported, marked)
        await until_told(hub, {"ses_0": 3})
        assert hub.told() == {"ses_0": [1, 2, 3]}


async def _exported_elsewhere() -> Exported:
    key = StreamKey("session", "ses_0")
    async with Ledger.connect("memory://", entry_points=False) as elsewhere:
        await quiet_sessions(elsewhere, 1)
        checked = await check_stream(elsewhere.store, key)
        lines = [header(), *[line async for line in export_stream(elsewhere.store, checked)], footer(1)]
    (exported,) = read_export(BytesIO("".join(f"{json_line(line)}\n" for line in lines).encode()), "here")
    return exported


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_nothing_that_happens_while_a_hub_begins_and_after_is_missed_or_published_twice(
    ledger: Ledger, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "VERIFY_SECONDS", 0.05)
    sessions = await quiet_sessions(ledger, SESSIONS)
    begun = asyncio.Event()
    writing = [asyncio.create_task(_write(session, begun)) for session in sessions]
    async with following(ledger, share) as hub:
        heads = await _versions(ledger, sessions)
        begun.set()
        await asyncio.gather(*writing)
        last = await _versions(ledger, sessions)
        await until_told(hub, last)
        for session, versions in hub.told().items():
            assert versions == list(range(versions[0], last[session] + 1)), session
            assert 2 < versions[0] <= heads[session] + 1, session


async def _write(session: Session, begun: asyncio.Event) -> None:
    """Ask until the hub has begun, and some more."""
    left = ASKS
    while left:
        await session.ask("bash", ["make"])
        left -= begun.is_set()


async def _versions(ledger: Ledger, sessions: Sequence[Session]) -> dict[str, int]:
    keys = [StreamKey("session", one.id) for one in sessions]
    return {key.id: head.version for key, head in zip(keys, await positions(ledger.store, keys), strict=True)}
