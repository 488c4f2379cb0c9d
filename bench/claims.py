"""Asks with a claim against the same asks without it, with and without masks; and claims of calls that were allowed before.

Masks are on by default. The content of every event lies apart from its payload in each of these figures.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from statistics import median

from bench.asks import WARM_COUNT
from bench.place import ALLOW, Place
from bench.report import FSYNCS, Fsync, Rounds, Row
from ledger import Ledger, Session

RUNNER = "bench"


class Claims:
    """One operation at a time, the kinds in turn."""

    name = "claims"
    fsyncs = FSYNCS

    def __init__(self) -> None:
        self._rounds = Rounds(self.name)

    async def start(self, place: Place) -> None:
        self._place = place
        bare = await place.stack.enter_async_context(
            Ledger.connect(place.url, actor="bench", entry_points=False, masks=False)
        )
        sessions = {
            "without both": await bare.session("claims-bare", rules=ALLOW),
            "ask": await place.ledger.session("claims-ask", rules=ALLOW),
            "with claim": await place.ledger.session("claims-with", rules=ALLOW),
            "claim alone": await place.ledger.session("claims-alone", rules=ALLOW),
        }
        self._works: dict[str, Callable[[], Awaitable[float]]] = {
            "without both": lambda: _ask(sessions["without both"]),
            "ask": lambda: _ask(sessions["ask"]),
            "with claim": lambda: _ask_with_claim(sessions["with claim"]),
            "claim alone": lambda: _claim(sessions["claim alone"]),
        }

    async def round(self, fsync: Fsync) -> None:
        seconds: dict[str, list[float]] = {figure: [] for figure in self._works}
        for turn in range(WARM_COUNT + self._place.size(300, 100)):
            for figure, work in self._works.items():
                taken = await work()
                if turn >= WARM_COUNT:
                    seconds[figure].append(taken)
        for figure, all_taken in seconds.items():
            self._rounds.add(fsync, figure, median(all_taken) * 1e6)

    def rows(self) -> list[Row]:
        rows = []
        for fsync in self.fsyncs:
            compared = self._rounds.compared
            rows += [
                compared("ask with its claim, p50", fsync, "with claim", "us", "ask", at_most=1.1),
                compared("ask with its claim and masks, p50", fsync, "with claim", "us", "without both", at_most=1.15),
                compared("claim of a call allowed before, p50", fsync, "claim alone", "us", "ask", at_most=3),
            ]
        return rows


async def _ask(session: Session) -> float:
    began = time.perf_counter()
    await session.ask("bash", ["git status"])
    return time.perf_counter() - began


async def _ask_with_claim(session: Session) -> float:
    """Return the seconds of an ask with its claim; the end of the run is recorded outside of them."""
    began = time.perf_counter()
    result = await session.ask("bash", ["git status"], claim=RUNNER)
    taken = time.perf_counter() - began
    assert result.settled is not None
    assert result.settled.claim is not None, "an allowed ask with a claim has it"
    await session.finish(result.request_id, result.settled.claim.claim_id)
    return taken


async def _claim(session: Session) -> float:
    asked = await session.ask("bash", ["git status"])
    began = time.perf_counter()
    claim = await session.claim(asked.request_id, runner=RUNNER)
    taken = time.perf_counter() - began
    await session.finish(asked.request_id, claim.claim_id)
    return taken
