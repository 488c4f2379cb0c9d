"""Many requests waiting in one process: its connections, its memory, and the delay of a wake-up."""

from __future__ import annotations

import time
from statistics import median

from bench.place import Child, Place, Probe, child
from bench.report import Asked, Fsync
from ledger import Session

CROWD = "crowd"
ALONE = "alone"


class Waiting(Probe):
    """A process with all waiters and a process with one; both are woken in turn."""

    name = "waiting"

    def __init__(self, *, quick: bool = False) -> None:
        super().__init__(quick=quick)
        self._next = 0
        self._turns: dict[str, int] = {}

    @property
    def _count(self) -> int:
        return self.size(10_000, 1_000)

    async def start(self, place: Place) -> None:
        self._place = place
        self._children: dict[str, Child] = {}
        for prefix, count in ((ALONE, 1), (CROWD, self._count)):
            connected = await self._connections()
            process = await place.stack.enter_async_context(child("bench.waiters", place.url, prefix, count))
            with_one, with_all = int(await process.line()), int(await process.line())
            self._children[prefix] = process
            if prefix == CROWD:
                self._rounds.add("everysec", "connections", await self._connections() - connected)
                self._rounds.add("everysec", "memory", (with_all - with_one) / (count - 1) / 1000)

    async def _connections(self) -> int:
        listed: bytes = await self._place.floor.send("CLIENT", "LIST")
        return len(listed.splitlines())

    async def round(self, fsync: Fsync) -> None:
        waits: dict[str, list[float]] = {ALONE: [], CROWD: []}
        for _ in range(self.size(150, 50)):
            self._next = (self._next + 997) % self._count
            waits[ALONE].append(await self._wake(ALONE, 0))
            waits[CROWD].append(await self._wake(CROWD, self._next))
        for prefix, seconds in waits.items():
            self._rounds.add(fsync, prefix, median(seconds) * 1e6)

    async def _wake(self, prefix: str, i: int) -> float:
        """Return the seconds from the reply until the waiter continues."""
        name = f"{prefix}-{i}"
        session = await self._place.ledger.attach(name)
        request_id = f"{name}-{self._turns.setdefault(name, 0)}"
        await _until_pending(session, request_id)
        replied = time.monotonic_ns()
        await session.reply(request_id, "once", actor="person")
        woken, at = (await self._children[prefix].line()).split()
        assert woken == name, f"{name} was answered, and {woken} was woken"
        self._turns[name] += 1
        return (int(at) - replied) / 1e9

    def asked(self) -> list[Asked]:
        many = f"{self._count:,} waiting in one process"
        return [
            Asked(f"{many}: connections", "everysec", "connections", "", at_most=4),
            Asked(f"{many}: reply to wake-up, p50", "everysec", CROWD, "us", ALONE, at_most=2),
            Asked(f"{many}: memory a waiter", "everysec", "memory", "kB", at_most=20),
        ]


async def _until_pending(session: Session, request_id: str) -> None:
    while request_id not in (await session.state()).pending:
        pass
