"""Pure work beside a gateway's loop: in processes, shared fairly by its callers, each piece with a budget.

A thread would not do: regular expressions and the shell's grammar hold the interpreter until they are done, and only
the end of their process stops them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from ledger.core.errors import InputError, LedgerError
from workers.gateway.beside import work
from workers.runtime.pool import EndedError, ProcessPool

WORKER_COUNT: Final = 2
WAITING_COUNT_MAX: Final = 8
"""Queued pieces of one caller; only one of them runs at a time."""

WALL_SECONDS_MAX: Final = 60.0
"""Time limit for a piece within its budget of processor time, for a busy machine."""

REST_SHARE: Final = 4.0
"""Pause after a piece whose work the loop repeats, as a multiple of the time that the piece took."""

REST_SECONDS_MAX: Final = 10.0


class TooCostlyError(LedgerError):
    """A piece of work over its limit of processor time, memory or room."""

    code = "TOO_COSTLY"


class BusyError(LedgerError):
    """A caller with too many pieces of work at once."""

    code = "BUSY"


class Beside:
    """Runs pure work in processes, one piece of a caller at a time."""

    def __init__(self, count: int = WORKER_COUNT) -> None:
        self._pool = ProcessPool(count, work.begin)
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._resting: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def run(self, caller: str, name: str, argument: Any, *, seconds: float, rests: bool = False) -> Any:
        """Return the result of the work of this name. `seconds` are of processor time.

        With `rests` the caller's next piece waits four times as long as this one took.
        Raises TooCostlyError, BusyError, and PolicyError or InputError of the work itself.
        """
        async with self._turn(caller, rests=rests) as used:
            if self._is_closed:
                raise BusyError("this gateway is shutting down; ask another one", retry_after=1)
            try:
                piece = (name, msgspec.json.encode(argument), seconds)
                done = await self._pool.run(work.do, *piece, seconds=WALL_SECONDS_MAX)
            except EndedError:
                done = work.PieceResult(seconds)
            used.append(done.seconds)
        if done.error is not None:
            raise done.error if isinstance(done.error, InputError) else InputError(done.error.text)
        if done.value is None:
            raise TooCostlyError(
                f"this takes more than {seconds:g} s of work; send less at once: fewer rules, or a shorter input"
            )
        return msgspec.json.decode(done.value)

    @property
    def is_busy(self) -> bool:
        """Return whether a process is working."""
        return self._pool.is_busy

    def is_resting(self, caller: str) -> bool:
        """Return whether the next piece of a caller has to wait."""
        lock = self._turns.get(caller)
        return lock is not None and lock.locked()

    @asynccontextmanager
    async def _turn(self, caller: str, *, rests: bool) -> AsyncIterator[list[float]]:
        if self._waiting[caller] >= WAITING_COUNT_MAX:
            text = f"{WAITING_COUNT_MAX} pieces of work of this token are under way; wait for their answers"
            raise BusyError(text, retry_after=1)
        self._waiting[caller] += 1
        lock = self._turns.setdefault(caller, asyncio.Lock())
        used: list[float] = []
        try:
            await lock.acquire()
            try:
                yield used
            finally:
                self._rest(caller, lock, min(REST_SHARE * sum(used), REST_SECONDS_MAX) if rests else 0)
        finally:
            self._waiting[caller] -= 1
            self._forget(caller, lock)

    def _rest(self, caller: str, lock: asyncio.Lock, seconds: float) -> None:
        if not seconds:
            lock.release()
            return

        async def rest() -> None:
            try:
                await asyncio.sleep(seconds)
            finally:
                lock.release()
                self._forget(caller, lock)

        task = asyncio.create_task(rest(), name="rest after costly work")
        self._resting.add(task)
        task.add_done_callback(self._resting.discard)

    def _forget(self, caller: str, lock: asyncio.Lock) -> None:
        if not self._waiting[caller] and not lock.locked():
            self._turns.pop(caller, None)
            del self._waiting[caller]

    async def close(self) -> None:
        """End the processes; a piece in progress raises TooCostlyError."""
        self._is_closed = True
        for task in self._resting:
            task.cancel()
        await asyncio.gather(*self._resting, return_exceptions=True)
        self._pool.close()
