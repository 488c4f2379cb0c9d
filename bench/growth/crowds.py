"""Lone commands beside much that is in force: grants of a project, pending requests, a long session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from statistics import median
from typing import Any, Final

from bench.growth.filling import tell
from bench.growth.lives import RULES
from bench.growth.rows import Figures
from bench.place import Place, child
from ledger import Session
from ledger.client.grounds import PRESENCE_SECONDS
from projections.engine import Engine

AT_ONCE_COUNT: Final = 256
WARM_COUNT: Final = 20
TURNS_COUNT: Final = 60

GRANTS, GRANTS_QUICK = (10, 100, 1_000, 10_000), (10, 20)
PENDING, PENDING_QUICK = (0, 3_000), (0, 30)
EVENTS, EVENTS_QUICK = 100_000, 300
SETTLED, SETTLED_QUICK = (2_000, 12_000), (300, 600)


class Crowds:
    """Each crowd in a session of its own, on one server without workers."""

    def __init__(self, place: Place, figures: Figures, repetitions: int) -> None:
        self._place = place
        self._figures = figures
        self._repetitions = repetitions
        self._numbers = count()

    async def measure(self) -> None:
        tell("asks by grants in force")
        await self._by_grants(GRANTS_QUICK if self._place.quick else GRANTS)
        tell("asks and replies by pending requests")
        await self._by_pending(PENDING_QUICK if self._place.quick else PENDING)
        tell("a long session")
        await self._first_ask(EVENTS_QUICK if self._place.quick else EVENTS)
        tell("a fold")
        await self._fold(*(SETTLED_QUICK if self._place.quick else SETTLED))

    async def _by_grants(self, counts: Iterable[int]) -> None:
        ledger, made = self._place.ledger, 0
        session = await ledger.session("grants", project="grants", rules=RULES)
        for wanted in counts:
            await at_once(
                lambda number: ledger.grant_in_project("grants", "bash", f"git push target{number} *"), made, wanted
            )
            made = wanted

            async def ask() -> None:
                # Another command each time: a remembered evaluation would hide what the grants cost.
                result = await session.submit("bash", [f"git push target5 b{next(self._numbers)}"])
                assert result.outcome == "allowed", result

            await self._often("ask by grants", wanted, ask)

    async def _by_pending(self, counts: Iterable[int]) -> None:
        session, made = await self._place.ledger.session("pending", rules=RULES), 0
        for wanted in counts:
            await at_once(lambda number: session.submit("bash", [f"npm run task{number}"]), made, wanted)
            made = wanted
            # A session reads presence ahead for so long after an ask that had to wait, however many others wait.
            await asyncio.sleep(PRESENCE_SECONDS)

            async def ask() -> None:
                result = await session.submit("bash", [f"git show {next(self._numbers)}"])
                assert result.outcome == "allowed", result

            await self._often("ask by pending", wanted, ask)
            await self._replies(session, wanted)

    async def _replies(self, session: Session, pending: int) -> None:
        for _ in range(self._repetitions):
            seconds = []
            for _ in range(TURNS_COUNT):
                waiting = await session.submit("bash", ["npm publish"])
                began = time.perf_counter()
                await session.reply(waiting.request_id, "once", actor="ann")
                seconds.append(time.perf_counter() - began)
            self._figures.add("reply by pending", pending, median(seconds) * 1e6)

    async def _often(self, name: str, at: int, work: Callable[[], Awaitable[Any]]) -> None:
        for _ in range(WARM_COUNT):
            await work()
        for _ in range(self._repetitions):
            seconds = []
            for _ in range(TURNS_COUNT):
                began = time.perf_counter()
                await work()
                seconds.append(time.perf_counter() - began)
            self._figures.add(name, at, median(seconds) * 1e6)

    async def _first_ask(self, events: int) -> None:
        session = await self._place.ledger.session("long", rules=RULES)
        await at_once(lambda number: session.submit("bash", [f"git show {number}"]), 1, events)
        # A projector, which writes the snapshots, is part of every deployment with long sessions.
        await Engine(self._place.ledger.store).catch_up(session.stream.key)
        for _ in range(self._repetitions):
            async with child("bench.growth.newcomer", self._place.url, session.id) as newcomer:
                self._figures.add("first ask", events, float(await newcomer.line()))

    async def _fold(self, few: int, many: int) -> None:
        """Fold a session twice in a process of its own: the difference is that of the requests between."""
        session = await self._place.ledger.session("settled", rules=RULES)

        async def settle(number: int) -> None:
            request_id = f"per_{number:026d}"
            await session.submit("bash", [f"npm run task{number}"], request_id=request_id)
            await session.reply(request_id, "once", actor="ann")
            claim = await session.claim(request_id)
            await session.finish(request_id, claim.claim_id)

        sizes = []
        for first, end in ((0, few), (few, many)):
            await at_once(settle, first, end)
            async with child("bench.growth.fold_size", self._place.url, session.id) as folding:
                sizes.append(int(await folding.line()))
        self._figures.add("fold", many, (sizes[1] - sizes[0]) / (many - few))


async def at_once(work: Callable[[int], Awaitable[Any]], first: int, end: int) -> None:
    """Do numbered work, much of it at a time."""
    numbers = iter(range(first, end))

    async def some() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(some() for _ in range(min(AT_ONCE_COUNT, max(1, end - first)))))
