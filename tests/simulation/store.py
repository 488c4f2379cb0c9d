"""A store as seen by a process on a bad network: every call and answer is delayed, and may be lost."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ledger.core.errors import InDoubtError, StoreError
from ledger.core.events import Presence
from ledger.stores.memory import MemoryServer, MemoryStore
from ledger.stores.port import (
    Append,
    AppendResult,
    Due,
    Entry,
    FreezeFlag,
    Opening,
    Place,
    Position,
    StreamInfo,
    StreamKey,
    WakeUp,
)
from ledger.stores.store import Answered, Listener
from tests.simulation.scheduler import Parked, Scheduler
from tests.support.store_calls import answer_with

T0: Final = 1_800_000_000_000
"""The time at which a simulation begins (server ms)."""


class Faults(msgspec.Struct, frozen=True):
    """Probability of each fault, per operation. After a lost answer the client sends its command again."""

    unreachable: float = 0
    answer_lost: float = 0
    in_doubt: float = 0
    wake_up_lost: float = 0
    wake_up_again: float = 0
    wake_up_by_id: float = 0
    gap: float = 0


NO_FAULTS: Final = Faults()


class ServerClock:
    """The server's time is the simulation's; a process's estimate is off by its skew."""

    known = True
    is_moved_by_hand = False
    grace_ms = 250

    def __init__(self, scheduler: Scheduler, skew_ms: int = 0) -> None:
        self._scheduler = scheduler
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return T0 + int(self._scheduler.now * 1000) + self._skew_ms

    def observe(self, now_ms: int) -> None:
        """Ignore the observation: the estimate stays off."""

    async def wait_until(self, ms: int) -> None:
        loop = asyncio.get_running_loop()
        reached = loop.create_future()
        # Slightly longer: a timer must not fire before the whole millisecond is reached.
        timer = loop.call_later(max((ms - self.now_ms() + 1) / 1000, 0), reached.set_result, None)
        try:
            await reached
        finally:
            timer.cancel()


class FaultyStore:
    """A `MemoryStore` behind the scheduler. A dead one, of a crashed process, answers no more."""

    confirms = False

    def __init__(self, scheduler: Scheduler, server: MemoryServer, name: str, skew_ms: int) -> None:
        self._scheduler = scheduler
        self._inner = MemoryStore(server)
        self._name = name
        self._listener: Listener | None = None
        self._context = contextvars.copy_context()
        self._wake_ups = 0
        self._posts: set[asyncio.Task[None]] = set()
        self.clock = ServerClock(scheduler, skew_ms)
        self.faults = NO_FAULTS
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def die(self) -> None:
        """Die: commands on their way to the server may arrive; no answer comes back."""
        self.is_dead = True
        await self._inner.close()
        for parked in self._scheduler.take_all(lambda one: one.owner is self):
            if parked.name.endswith(" on its way") and self._scheduler.happens(0.5):
                parked.go()
            else:
                parked.drop()

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        self._must_live()
        task = asyncio.create_task(answer_with(answered, self._append(append, also_read)), name="post")
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _append(
        self, append: Append, also_read: tuple[StreamKey, Position] | None
    ) -> tuple[AppendResult, tuple[Entry, ...]]:
        where = f"append {append.key.name}"
        self._may_be_unreachable()
        if self._scheduler.happens(self.faults.in_doubt):
            if self._scheduler.happens(0.5):
                await self._arrive(where, append)
            await self._turn(f"{where} in doubt")
            raise InDoubtError("no answer came")
        answer = await self._arrive(where, append)
        while self._scheduler.happens(self.faults.answer_lost):
            answer = await self._arrive(f"{where} again", append)
        beside: tuple[Entry, ...] = ()
        if also_read is not None:
            await self._turn(f"{where} beside")
            if self._scheduler.happens(self.faults.in_doubt):
                raise InDoubtError("what an allow rests on could not be read")
            beside = self._inner._after(*also_read, 1000)
        await self._turn(f"{where} answered")
        return answer, beside

    async def _arrive(self, where: str, append: Append) -> AppendResult:
        """Apply the command on the server, also when the process that sent it has died."""
        self._must_live()
        arrived: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()

        def go() -> None:
            answer = self._inner.append(append)
            if not arrived.done():
                arrived.set_result(answer)

        self._scheduler.park(Parked(f"{self._name} {where} on its way", self, go, arrived.cancel))
        return await arrived

    async def open(self, key: StreamKey) -> Opening:
        await self._asked(f"open {key.name}")
        opening = await self._inner.open(key)
        await self._turn(f"open {key.name} answered")
        return opening

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        await self._asked(f"read {key.name}")
        page = await self._inner.read(key, after, count)
        await self._turn(f"read {key.name} answered")
        return page

    async def set_flags(self, flag: FreezeFlag, server: str | None = None) -> list[Position]:
        await self._asked("set flags")
        held = await self._inner.set_flags(flag, server)
        await self._turn("set flags answered")
        return held

    async def flags(self) -> list[FreezeFlag | None]:
        await self._asked("flags")
        return await self._inner.flags()

    async def info(self, key: StreamKey) -> StreamInfo | None:
        await self._asked(f"info {key.name}")
        return await self._inner.info(key)

    async def now_ms(self) -> int:
        await self._asked("time")
        return await self._inner.now_ms()

    async def due(
        self, until_ms: int | None, count: int, partitions: Sequence[int] | None = None
    ) -> list[tuple[str, int | None]]:
        await self._asked("due")
        return await self._inner.due(until_ms, count, partitions)

    async def due_of(self, sessions: Sequence[str]) -> list[int | str | None]:
        await self._asked("due of some")
        return await self._inner.due_of(sessions)

    async def correct_due(self, session: str, seen_ms: int | str | None, to: Due | str, *, at: Position) -> None:
        await self._asked(f"correct {session}")
        await self._inner.correct_due(session, seen_ms, to, at=at)

    async def leases(self, places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        found = []
        for place in places:
            await self._asked(f"leases {place}")
            found += await self._inner.leases([place])
            await self._turn(f"leases {place} answered")
        return found

    async def lease(self, place: Place, client: Presence, lease_ms: int, *, alone: bool = False) -> bool:
        await self._asked(f"{'renew' if lease_ms else 'drop'} {place}")
        return await self._inner.lease(place, client, lease_ms, alone=alone)

    # --- wake-ups ---------------------------------------------------------------------------------------------------

    async def subscribe(self, partition: int, listener: Listener) -> None:
        if self._listener is None:
            self._listener = listener
            self._context = contextvars.copy_context()
        await self._asked(f"subscribe {partition}")
        await self._inner.subscribe(partition, self)
        await self._turn(f"subscribe {partition} answered")
        self.gap(partition)

    def woken(self, wake_up: WakeUp) -> None:
        """Deliver or lose a wake-up that the server published."""
        if self._scheduler.happens(self.faults.gap):
            # The connection breaks: wake-ups in flight are lost, and the loss is reported after the reconnect.
            self._scheduler.take_all(lambda one: one.owner is self and one.name.endswith(" rings"))
            partition = wake_up.key.partition(self._inner.partition_count)
            self._ring(f"gap {partition:04}", lambda: self.gap(partition))
        elif not self._scheduler.happens(self.faults.wake_up_lost):
            if self._scheduler.happens(self.faults.wake_up_by_id):
                wake_up = msgspec.structs.replace(wake_up, entries=())
            self._deliver(wake_up)

    def _deliver(self, wake_up: WakeUp) -> None:
        def go() -> None:
            if self._listener is not None and not self.is_dead:
                self._listener.woken(wake_up)
            if self._scheduler.happens(self.faults.wake_up_again):
                self._deliver(wake_up)

        self._wake_ups += 1
        self._ring(f"{wake_up.key.name} {self._wake_ups:06} rings", go)

    def gap(self, partition: int) -> None:
        if self._listener is not None and not self.is_dead:
            self._listener.gap(partition)

    def _ring(self, name: str, go: Any) -> None:
        self._scheduler.park(Parked(f"{self._name} {name}", self, lambda: self._context.run(go), lambda: None))

    # --- inside -----------------------------------------------------------------------------------------------------

    async def _asked(self, where: str) -> None:
        self._may_be_unreachable()
        await self._turn(where)

    async def _turn(self, where: str) -> None:
        self._must_live()
        await self._scheduler.turn(f"{self._name} {where}", self)

    def _may_be_unreachable(self) -> None:
        if self._scheduler.happens(self.faults.unreachable):
            raise StoreError("the server cannot be reached")

    def _must_live(self) -> None:
        if self.is_dead:
            raise asyncio.CancelledError
