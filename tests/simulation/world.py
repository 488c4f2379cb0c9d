"""Processes on one memory server and one scheduler: they crash between any two steps, and start again."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, cast

from ledger import Ledger
from ledger.client.store_connection import StoreConnection
from ledger.log.streams import Streams
from ledger.stores.memory import MemoryServer
from ledger.stores.port import START, Position, StreamKey
from ledger.stores.store import Store
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import NO_FAULTS, Faults, FaultyStore, ServerClock

PARTITION_COUNT: Final = 2
RESTART_SECONDS: Final = 3.0

PROCESS: Final[contextvars.ContextVar[Process | None]] = contextvars.ContextVar("process", default=None)


class Actor(Protocol):
    """An actor keeps its progress, so that it continues with a new process's ledger after a crash."""

    name: str
    is_done: bool
    is_daemon: bool

    async def run(self, ledger: Ledger) -> None: ...


class Process:
    """A ledger with a cache of its own, and its actors."""

    def __init__(self, world: World, name: str, skew_ms: int, actors: list[Actor]) -> None:
        self.name = name
        self.actors = actors
        self.ledger: Ledger | None = None
        self._world = world
        self._skew_ms = skew_ms
        self._births = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._store: FaultyStore | None = None

    def start(self) -> None:
        """Start with an empty cache, whatever was cached before."""
        self._births += 1
        contextvars.copy_context().run(self._start)

    def _start(self) -> None:
        PROCESS.set(self)
        world = self._world
        store = FaultyStore(world.scheduler, world.server, f"{self.name}.{self._births}", self._skew_ms)
        store.faults = world.faults
        self._store = store
        world.spawn(self._live(store))

    async def _live(self, store: FaultyStore) -> None:
        simulated = cast("Store", store)
        ledger = Ledger(StoreConnection("simulated", lambda *_, **__: simulated), plugins=(), actor=self.name)
        ledger._store = simulated
        ledger._streams = Streams(simulated)
        await ledger._streams.start()
        self.ledger = ledger
        for actor in self.actors:
            if not actor.is_done:
                self._world.spawn(self._act(actor, ledger))

    async def _act(self, actor: Actor, ledger: Ledger) -> None:
        try:
            await actor.run(ledger)
        except Exception as error:  # noqa: BLE001 - any error fails the run
            self._world.fail(error)
        actor.is_done = True

    def own(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    @property
    def store(self) -> FaultyStore:
        assert self._store is not None
        return self._store

    @property
    def is_alive(self) -> bool:
        return self._store is not None

    def crash(self) -> None:
        """Crash the process; commands it sent may still arrive."""
        store, self._store, self.ledger = self.store, None, None
        store.is_dead = True
        for task in list(self._tasks):
            task.cancel()
        self._world.spawn(store.die())

    async def stop(self) -> None:
        if self.ledger is not None:
            await self.ledger.__aexit__()


class World:
    """The server, its clock, the processes, and their faults."""

    def __init__(self, scheduler: Scheduler, faults: Faults, crash: float, failover: float) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.crash_share = crash
        self.failover_share = failover
        self.server = MemoryServer(ServerClock(scheduler), PARTITION_COUNT)
        self.processes: list[Process] = []
        self.board: list[tuple[str, str]] = []
        """Announced requests: (session, request id)."""
        self.frozen: list[tuple[int, int | None]] = []
        """From which acknowledgement (ms) of a freeze to which begin of its end."""
        self.rules: dict[str, list[dict[str, str]]] = {}
        """The contents of each session's rule file."""
        self.failures: list[BaseException] = []
        self.lost: Callable[[StreamKey], None] = lambda _: None
        """Called with a stream that has lost entries."""
        self._failovers = 0
        self._spawned: set[asyncio.Task[Any]] = set()
        scheduler.between = self._between

    @property
    def now_ms(self) -> int:
        return self.server.clock.now_ms()

    def head(self, key: StreamKey) -> Position:
        entries = self.server.streams.get(key)
        return entries[-1].position if entries else START

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    def calm(self) -> None:
        """End all faults."""
        self.faults = NO_FAULTS
        self.crash_share = self.failover_share = 0
        for process in self.processes:
            if process.is_alive:
                process.store.faults = NO_FAULTS

    def _between(self) -> None:
        if self.scheduler.happens(self.crash_share):
            alive = [process for process in self.processes if process.is_alive]
            if alive:
                process = self.scheduler.chance.choice(alive)
                process.crash()
                later = self.scheduler.chance.random() * RESTART_SECONDS
                asyncio.get_running_loop().call_later(later, process.start)
        if self.scheduler.happens(self.failover_share):
            self._lose_entries()

    def _lose_entries(self) -> None:
        """Fail over to a server that has not received the last entries of a stream."""
        # That of freezes is confirmed by replicas; the flags are not.
        streams = {
            key: entries for key, entries in self.server.streams.items() if len(entries) > 1 and key.kind != "access"
        }
        if streams:
            key = self.scheduler.chance.choice(sorted(streams))
            del streams[key][-self.scheduler.chance.randint(1, min(3, len(streams[key]) - 1)) :]
            self.scheduler.now += 0.002
            self._lose_flag(key)
            self.lost(key)

    def _lose_flag(self, key: StreamKey) -> None:
        """Lose the flag beside a stream; whoever took over has another identity."""
        self._failovers += 1
        self.server.identity = f"memory-{self._failovers + 1}"
        self.server.freeze_flags.pop(key.partition(self.server.keys.count), None)

    async def pass_time(self, most_seconds: float) -> None:
        """Let at most `seconds` pass."""
        await self._pass(self.scheduler.chance.random() * most_seconds)

    async def reach(self, ms: int) -> None:
        """Wait until the server's time is at least this."""
        await self._pass(max(ms - self.now_ms, 0) / 1000)

    async def _pass(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        passed: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, passed.set_result, None)
        try:
            await passed
        finally:
            timer.cancel()

    async def until(self, holds: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
        """Check every simulated second; fails when the condition is not met in time, or an actor has failed."""
        end = self.scheduler.now + seconds
        while not holds():
            if self.failures:
                raise self.failures[0]
            assert self.scheduler.now < end, what()
            await self.pass_time(1)
        if self.failures:
            raise self.failures[0]


def task_factory(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
    """Assign every task to the process that made it."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
    process = PROCESS.get()
    if process is not None:
        process.own(task)
    return task
