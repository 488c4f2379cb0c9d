"""Work in processes of our own, on `concurrent.futures`: one piece at a time in each of them.

Each process is an executor of its own. So one that is killed, for a piece without an end or by the system, takes no
other piece with it; the next piece starts another process. All of them end when this process does, however it ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Thread
from typing import Any, Final, TypeVar

from ledger.core.errors import LedgerError

T = TypeVar("T")

AHEAD_COUNT: Final = 2
"""Portions for each process that may be done before an earlier one is taken: their results are in memory."""

_SAFE_PATH: Final = "PYTHONSAFEPATH"
_WARNINGS: Final = "PYTHONWARNINGS"
_NO_TRACKER: Final = "ignore::UserWarning:multiprocessing.resource_tracker"
"""Python's own process that tidies up after this one was killed would tell the user what it removes."""


class EndedError(LedgerError):
    """The process of a piece ended before its result, could not be started, or took too long and was killed."""

    def __init__(self) -> None:
        super().__init__("a process of this command ended by itself")


class ProcessPool:
    """Runs functions in processes. Each process starts with the first piece that finds no other one free."""

    def __init__(self, count: int, begin: Callable[..., object], *arguments: Any) -> None:
        """`begin(*arguments)` is called first in each process. Everything that is sent must be picklable."""
        self._processes = [_Process(begin, arguments) for _ in range(count)]
        self._free: asyncio.LifoQueue[_Process] = asyncio.LifoQueue()
        for process in self._processes:
            self._free.put_nowait(process)

    @property
    def is_busy(self) -> bool:
        """Return whether a process is working."""
        return self._free.qsize() < len(self._processes)

    async def run(self, function: Callable[..., T], *arguments: Any, seconds: float | None = None) -> T:
        """Return the result of a function of a module, from the next process that is free.

        `seconds` limit the time of the piece. Raises EndedError, and whatever the function raises.
        """
        process = await self._free.get()
        try:
            return await process.run(function, arguments, seconds)
        finally:
            self._free.put_nowait(process)

    async def share(
        self, function: Callable[..., T], portions: Sequence[Any], take: Callable[[T], Awaitable[None] | None]
    ) -> None:
        """Run the function on all portions, and call `take` with each result, in the order of the portions.

        Raises the errors of `run`, alone or in a group.
        """
        waiting: deque[asyncio.Task[T]] = deque()

        async def take_first() -> None:
            taken = take(await waiting.popleft())
            if taken is not None:
                await taken

        async with asyncio.TaskGroup() as group:
            for portion in portions:
                if len(waiting) == AHEAD_COUNT * len(self._processes):
                    await take_first()
                waiting.append(group.create_task(self.run(function, portion)))
            while waiting:
                await take_first()

    def close(self) -> None:
        """Kill the processes, and wait until they have ended. A piece in progress, or a later one, raises EndedError."""
        for process in self._processes:
            process.close()


class _Process:
    """One process, which is started when needed, and again after it has ended."""

    def __init__(self, begin: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._begin = (begin, arguments)
        self._executor: ProcessPoolExecutor | None = None
        self._context = _Context()
        self._is_closed = False

    async def run(self, function: Callable[..., T], arguments: tuple[Any, ...], seconds: float | None) -> T:
        if self._is_closed:
            raise EndedError
        future = self._submit(function, arguments)
        try:
            async with asyncio.timeout(seconds):
                # Shielded, because a piece that runs cannot be cancelled.
                return await asyncio.shield(asyncio.wrap_future(future))
        except BrokenExecutor as error:
            raise EndedError from error
        except TimeoutError as error:
            if future.done():
                raise
            raise EndedError from error
        finally:
            # Also when the caller was cancelled: nothing else ends the piece.
            if not future.done() or isinstance(future.exception(), BrokenExecutor):
                self._kill(waits=False)

    def _submit(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> Future[T]:
        """Hand a piece to the process, or to a new one where it has ended since the last piece. Raises EndedError."""
        try:
            with _starting():
                with suppress(BrokenExecutor):
                    if self._executor is not None:
                        return self._executor.submit(function, *arguments)
                self._kill(waits=False)
                self._context = _Context()
                self._executor = ProcessPoolExecutor(1, self._context, _begin, self._begin)
                return self._executor.submit(function, *arguments)
        except OSError as error:
            self._kill(waits=False)
            raise EndedError from error

    def _kill(self, *, waits: bool) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            self._context.kill()
            executor.shutdown(wait=waits)

    def close(self) -> None:
        self._is_closed = True
        self._kill(waits=True)


class _Context(SpawnContext):
    """A context that keeps the processes it made: an executor can only end them after their work."""

    def __init__(self) -> None:
        self._made: list[SpawnProcess] = []

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802 - a class there
        self._made.append(SpawnProcess(*args, **options))
        return self._made[-1]

    def kill(self) -> None:
        for process in self._made:
            if process.pid is not None:
                process.kill()


@contextmanager
def _starting() -> Iterator[None]:
    """Start processes that import nothing from the folder they stand in, and that Ctrl-C does not reach.

    The folder may be anybody's. The terminal signals them as it signals us, and we end them.
    """
    before = {name: os.environ.get(name) for name in (_SAFE_PATH, _WARNINGS)}
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    os.environ[_SAFE_PATH] = "1"
    os.environ[_WARNINGS] = ",".join(filter(None, (before[_WARNINGS], _NO_TRACKER)))
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)


def _begin(begin: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    """Begin a process: from now on it ends with its parent."""
    Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
    begin(*arguments)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
