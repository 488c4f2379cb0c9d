"""Events whose wake-up was lost are found by the feeds, without a look at the streams that nothing happened in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ledger import Ledger
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.port import WakeUp
from tests.support.waiting import wait_until_async
from workers.gateway.events import hub as hub_module
from workers.gateway.events.hub import Hub

RULES = [{"permission": "bash", "pattern": "*", "action": "allow"}]


class DeafHub(Hub):
    """A hub that gets no wake-up."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.scans = 0

    def _woken(self, wake_up: WakeUp) -> None:
        pass

    async def _compare(self) -> None:
        self.scans += 1
        await super()._compare()

    def told(self) -> list[tuple[str, int]]:
        """Return the sessions and versions that were published, in order."""
        found = self.ring.since(0, self.ring.end)
        assert found is not None
        frames = [item.frame for item in found]
        return [(one.key.id, one.at.version) for one in frames if one is not None and one.part == one.parts]


@asynccontextmanager
async def deaf_hub(ledger: Ledger) -> AsyncIterator[DeafHub]:
    hub = DeafHub(ledger)
    try:
        await hub.follow_all()
        yield hub
    finally:
        await hub.close()


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "VERIFY_SECONDS", 0.05)


async def test_events_of_known_and_of_new_sessions_are_published_once_and_no_stream_is_scanned(ledger: Ledger) -> None:
    known = await ledger.session("ses_known", rules=RULES)
    await ledger.session("ses_quiet", rules=RULES)
    async with deaf_hub(ledger) as hub:
        scans = hub.scans
        await known.ask("bash", ["ls"])
        new = await ledger.session("ses_new", rules=RULES)
        await new.ask("bash", ["ls"])
        await known.ask("bash", ["pwd"])

        async def all_are_told() -> bool:
            return {("ses_known", 3), ("ses_new", 2)} <= set(hub.told())

        await wait_until_async(all_are_told, "the events to be published")
        assert hub.scans == scans
        in_order = {session: [at for one, at in hub.told() if one == session] for session, _ in hub.told()}
        assert in_order == {"ses_known": [2, 3], "ses_new": [1, 2]}


@pytest.mark.slow
async def test_where_a_feed_dropped_lines_all_streams_are_compared(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "VERIFY_SECONDS", 600.0)
    async with deaf_hub(ledger) as hub:
        scans = hub.scans
        session = await ledger.session("ses_busy", rules=RULES)
        for number in range(FEED_LENGTH_COUNT + 1):
            await session.submit("bash", [f"ls {number}"])
        assert not await hub._compare_feeds()
        monkeypatch.setattr(hub_module, "VERIFY_SECONDS", 0.05)
        hub._again.set()

        async def all_are_told() -> bool:
            return ("ses_busy", FEED_LENGTH_COUNT + 2) in hub.told()

        await wait_until_async(all_are_told, "the events to be published")
        assert hub.scans > scans
        assert await hub._compare_feeds()
