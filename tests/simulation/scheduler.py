"""A loop with simulated time, in which one seed decides the order of all steps.

Each wait for the outside world (a call of the store, its answer, a wake-up) is parked under a name. When nothing
can run any more, the scheduler releases one parked step, or lets time pass. The same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import selectors
from collections.abc import Callable
from typing import Any, Final

TURN_SECONDS: Final = 0.02
"""The most time that passes at once while some step could run."""

LONG_TURN_SECONDS: Final = 1.5
LONG_TURN_SHARE: Final = 0.004
TIME_SHARE: Final = 0.15


class Parked:
    """A parked step: `go` runs it, `drop` cancels it."""

    def __init__(self, name: str, owner: object, go: Callable[[], object], drop: Callable[[], object]) -> None:
        self.name = name
        self.owner = owner
        self.go = go
        self.drop = drop


class _Idle(selectors.SelectSelector):
    """A selector without sockets: waiting for events advances the simulation."""

    step: Callable[[float | None], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.step(timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose time moves only when no step can run, or when the scheduler moves it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        idle = _Idle()
        idle.step = scheduler.step
        super().__init__(idle)

    def time(self) -> float:
        return self._scheduler.now


class Scheduler:
    """Choice of the next parked step, by the seed. `now` is in seconds after the beginning."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.steps = 0
        self.between: Callable[[], None] = lambda: None
        """Called between any two steps, where processes crash."""
        self._parked: list[Parked] = []
        self._trace = hashlib.sha256()

    @property
    def trace(self) -> str:
        """A digest of all steps; runs with equal traces were the same."""
        return self._trace.hexdigest()

    def happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    def park(self, parked: Parked) -> None:
        self._parked.append(parked)

    def take_all(self, of: Callable[[Parked], bool]) -> list[Parked]:
        """Take the parked steps that match, in the order of their names."""
        taken = sorted(filter(of, self._parked), key=lambda one: one.name)
        self._parked = [one for one in self._parked if one not in taken]
        return taken

    async def turn(self, name: str, owner: object) -> None:
        """Wait until the scheduler releases this step."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go() -> None:
            if not future.done():
                future.set_result(None)

        self.park(Parked(name, owner, go, future.cancel))
        await future

    def step(self, timeout: float | None) -> None:
        """Advance when no step can run; the next timer is due in `timeout` seconds."""
        self.steps += 1
        self.between()
        if not self._parked:
            assert timeout is not None, "everybody waits for ever"
            self.now += timeout
        elif self.happens(TIME_SHARE):
            most = LONG_TURN_SECONDS if self.happens(LONG_TURN_SHARE / TIME_SHARE) else TURN_SECONDS
            passes = self.chance.random() * most
            self.now += passes if timeout is None else min(passes, timeout)
        else:
            # By name: the order of parking may depend on the addresses of objects.
            self._parked.sort(key=lambda one: one.name)
            chosen = self._parked.pop(self.chance.randrange(len(self._parked)))
            self._trace.update(f"{self.now:.6f} {chosen.name}\n".encode())
            chosen.go()


def run(scheduler: Scheduler, main: Callable[[], Any], task_factory: Any) -> Any:
    """Run a coroutine function to its end in simulated time."""
    loop = SimulatedLoop(scheduler)
    loop.set_task_factory(task_factory)
    # Remains of a crashed process, and failed reads in the background, are expected.
    loop.set_exception_handler(lambda *_: None)
    logging.disable()
    # The order of steps is chosen here; random choices of others (a worker shuffles its work) must repeat, too.
    known = random.getstate()
    random.seed(scheduler.chance.random())
    try:
        return loop.run_until_complete(main())
    finally:
        random.setstate(known)
        logging.disable(logging.NOTSET)
        scheduler.between = lambda: None
        while left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
