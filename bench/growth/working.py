"""The work itself at one size: asks, replies and expiries, beside the floor of the same moment."""

from __future__ import annotations

import time
from statistics import fmean, median
from typing import Final

from bench.growth.lives import RULES
from bench.growth.rows import Figures
from bench.place import PAYLOAD, Place, child
from ledger import Session, Timeouts

WARM_COUNT: Final = 20
TURNS_COUNT: Final = 40
"""Asks of a repetition."""

DEADLINE_SECONDS: Final = 0.15


class Working:
    """Asks, replies and expiries in sessions of their own."""

    def __init__(self, place: Place, figures: Figures, size: int, repetitions: int) -> None:
        self._place = place
        self._figures = figures
        self._size = size
        self._repetitions = repetitions

    async def measure(self) -> None:
        session = await self._place.ledger.session(f"work-{self._size}-{time.time_ns()}", rules=RULES)
        await self._turns(session, WARM_COUNT)
        for _ in range(self._repetitions):
            seconds = await self._turns(session, TURNS_COUNT)
            floor = median(seconds["floor"])
            self._figures.add("floor", self._size, floor * 1e6)
            self._figures.add("ask", self._size, median(seconds["ask"]) / floor)
            self._figures.add("reply", self._size, median(seconds["reply"]) / floor)
        await self._expiries()

    async def _turns(self, session: Session, count: int) -> dict[str, list[float]]:
        """Return the seconds of each kind of work, the kinds in turn."""
        seconds: dict[str, list[float]] = {"floor": [], "ask": [], "reply": []}
        for _ in range(count):
            began = time.perf_counter()
            await self._place.floor.send("XADD", "floor", "MAXLEN", "~", 1000, "*", "d", PAYLOAD)
            written = time.perf_counter()
            await session.ask("bash", ["git status"])
            asked = time.perf_counter()
            waiting = await session.submit("bash", ["npm publish"])
            submitted = time.perf_counter()
            await session.reply(waiting.request_id, "once", actor="ann")
            seconds["floor"].append(written - began)
            seconds["ask"].append(asked - written)
            seconds["reply"].append(time.perf_counter() - submitted)
        return seconds

    async def _expiries(self) -> None:
        """Let lone deadlines pass, with a real worker; how late each was is read from the log."""
        async with child("workers.cli", "worker", "expiry", "--url", self._place.url):
            # The first expiry shows that the worker runs.
            await self._expire(0)
            late_ms = [await self._expire(number) for number in range(1, 1 + 4 * self._repetitions)]
        self._figures.add("expiry", self._size, fmean(late_ms))  # of whole milliseconds

    async def _expire(self, number: int) -> float:
        """Follow the session's events, which settles nothing, and return how late its deadline was met (ms)."""
        timeouts = Timeouts(unattended=DEADLINE_SECONDS, cap=None)
        name = f"expiry-{self._size}-{number}-{time.time_ns()}"
        session = await self._place.ledger.session(name, rules=RULES, timeouts=timeouts)
        waiting = await session.submit("bash", ["npm publish"])
        assert waiting.request.deadline_ms is not None
        async for event in session.events():
            if event.type == "expired":
                return event.ms - waiting.request.deadline_ms
        raise AssertionError("events are followed until the request has expired")
