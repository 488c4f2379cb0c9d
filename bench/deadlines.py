"""Many deadlines in the same second, and a single one, met by a real expiry worker."""

from __future__ import annotations

import asyncio
from collections import Counter

from bench.place import ASK, Place, Probe, child
from bench.report import Asked, Fsync, percentile
from ledger import Session, Timeouts

AT_ONCE_COUNT = 128
LONE_SECONDS = 0.3
LOOK_MS = 50
SETUP_PER_SECOND = 400
"""Sessions that even a busy machine prepares in a second; the common deadline lies after their preparation."""


class Deadlines(Probe):
    """Requests that nobody answers. The delay of each expiry is read from the log, by the server's clock."""

    name = "deadlines"

    def __init__(self, *, quick: bool = False) -> None:
        super().__init__(quick=quick)
        self._series = 0
        self._is_crowd_done = False

    @property
    def _count(self) -> int:
        return self.size(10_000, 500)

    async def start(self, place: Place) -> None:
        self._place = place
        await place.stack.enter_async_context(child("workers.cli", "worker", "expiry", "--url", place.url))
        # Its first expiry shows that the worker runs.
        await self._expire(1, LONE_SECONDS)

    async def round(self, fsync: Fsync) -> None:
        for _ in range(3):
            late_ms, _, _ = await self._expire(1, LONE_SECONDS)
            self._rounds.add(fsync, "lone", late_ms[0])
        if self._is_crowd_done:
            return  # once is enough: it takes half a minute
        self._is_crowd_done = True
        late_ms, expired, spread_ms = await self._expire(self._count, 2 + self._count / SETUP_PER_SECOND)
        self._rounds.add(fsync, "spread", spread_ms)
        self._rounds.add(fsync, "late", percentile(late_ms, 99))
        self._rounds.add(fsync, "not once", sum(times != 1 for times in expired) + self._count - len(expired))

    async def _expire(self, count: int, in_seconds: float) -> tuple[list[float], list[int], float]:
        """Return each expiry's delay, the number of expiries of each request, and the spread of the deadlines (ms)."""
        store, gate = self._place.ledger.store, asyncio.Semaphore(AT_ONCE_COUNT)
        at_ms = store.clock.now_ms() + round(in_seconds * 1000)
        self._series += 1
        names = [f"deadline-{self._series}-{i}" for i in range(count)]

        async def ask(name: str) -> Session:
            async with gate:
                seconds = max((at_ms - store.clock.now_ms()) / 1000, 0.05)
                timeouts = Timeouts(unattended=seconds, cap=None)
                session = await self._place.ledger.session(name, rules=ASK, timeouts=timeouts)
                await session.submit("bash", ["git push"], request_id=f"{name}-r")
                return session

        sessions = await asyncio.gather(*(ask(name) for name in names))
        await self._until_nothing_due(set(names))
        late_ms: list[float] = []
        deadlines: list[int] = []
        expired: Counter[str] = Counter()
        for session in sessions:
            async for event in session.events(follow_on=False):
                if event.type == "expired":
                    expired[session.id] += 1
                    request = (await session.result(f"{session.id}-r")).request
                    assert request.deadline_ms is not None
                    late_ms.append(event.ms - request.deadline_ms)
                    deadlines.append(request.deadline_ms)
        return late_ms, list(expired.values()), max(deadlines) - min(deadlines)

    async def _until_nothing_due(self, names: set[str]) -> None:
        """Poll the index: following the events would cost this process time that is not to be measured."""
        store = self._place.ledger.store
        while any(name in names for name, _ in await store.due(None, 3 * self._count)):
            await store.clock.wait_until(store.clock.now_ms() + LOOK_MS)

    def asked(self) -> list[Asked]:
        many = f"{self._count:,} deadlines in the same second"
        return [
            Asked(f"{many}: apart", "everysec", "spread", "ms", at_most=1000),
            Asked(f"{many}: not expired exactly once", "everysec", "not once", "", at_most=0),
            Asked(f"{many}: lateness, p99", "everysec", "late", "ms", at_most=2000),
            Asked("a lone deadline: lateness", "everysec", "lone", "ms", at_most=50),
        ]
