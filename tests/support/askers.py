"""Agents that keep asking while servers stop and start, and a record of the answers they received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ledger import Ledger, StoreError
from ledger.core.events import Asked, Replied
from ledger.log.tail import read_events
from ledger.stores.port import StreamKey
from tests.support.waiting import pause
from workers.upkeep.stream_checks import check_stream

ALLOW = [{"permission": "bash", "pattern": "*", "action": "allow"}]
ASK = [{"permission": "bash", "pattern": "*", "action": "ask"}]


class Asker:
    """Asks one question after another in its session; a failed ask is repeated under its id."""

    def __init__(self, ledger: Ledger, session: str) -> None:
        self._ledger = ledger
        self.session = session
        self.allowed: list[str] = []
        self.failures: list[StoreError] = []
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    async def work(self) -> None:
        session = await self._ledger.session(self.session, rules=ALLOW)
        while not self._stopped:
            request_id = f"{self.session}-{len(self.allowed)}"
            try:
                await session.ask("bash", ["make"], request_id=request_id)
            except StoreError as error:
                self.failures.append(error)
                # An immediate refusal must not keep the loop from everything else.
                await pause()
            else:
                self.allowed.append(request_id)


async def check_log(ledger: Ledger, askers: Sequence[Asker]) -> None:
    """Check that the log holds every allowed request once, in an unbroken chain."""
    for asker in askers:
        key = StreamKey("session", asker.session)
        assert (await check_stream(ledger.store, key)).problems == []
        asked = Counter(
            [one.event.request_id async for one in read_events(ledger.store, key) if isinstance(one.event, Asked)]
        )
        assert set(asker.allowed) <= set(asked), "an acknowledged allow is lost"
        assert set(asked.values()) <= {1}, "a request was decided twice"


async def replies_in(ledger: Ledger, session: str) -> list[str]:
    """The requests that were answered, in order."""
    key = StreamKey("session", session)
    return [one.event.request_id async for one in read_events(ledger.store, key) if isinstance(one.event, Replied)]
