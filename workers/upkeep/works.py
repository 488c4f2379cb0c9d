"""Work on all streams that several processes can share: its portions, and what becomes of each.

Work is a coroutine function of a module, with its first arguments bound by `partial`; it takes a ledger and a portion.
Each process has its own connection to the ledger, and logs what it warns of itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import BrokenExecutor, Future
from functools import cache
from typing import Final, TypeVar

from ledger import Ledger
from ledger.access.passkeys import Passkey
from ledger.core.errors import StoreError
from ledger.log.verify import Head
from ledger.stores.port import StreamKey
from projections.engine import CaughtUp, Engine, project_anew
from workers.projector import Repairs
from workers.runtime.children import Processes, collect_rarely
from workers.runtime.logs import set_up
from workers.upkeep.stream_checks import Checked, Depth, StreamChecker, read_anchors

P = TypeVar("P")
T = TypeVar("T")

STREAMS_OF_A_PROCESS_COUNT: Final = 2000
"""Fewer streams take less time than the start of a process."""

CHECKED_AT_ONCE_COUNT: Final = 500
"""Streams of a portion that is checked."""

AHEAD_COUNT: Final = 2
"""Portions for each process that may be done before an earlier one is taken: their results are in memory."""


async def check_streams(
    depth: Depth, kept: dict[str, Passkey] | None, ledger: Ledger, portion: Sequence[tuple[StreamKey, Head | None]]
) -> list[Checked]:
    """Return what was found in each stream, in this order; a head is one that was kept from before.

    `kept` are the passkeys to trust alone. Raises StoreError, MissingExtraError.
    """
    known = {key: head for key, head in portion if head is not None}
    checker = StreamChecker(ledger.store, known, await read_anchors(ledger.store, kept), depth)
    return [one async for one in checker.check_all([key for key, _ in portion])]


def portions_to_check(
    keys: Sequence[StreamKey], known: dict[StreamKey, Head]
) -> list[list[tuple[StreamKey, Head | None]]]:
    """Return streams in portions, each with what is known of them."""
    starts = range(0, len(keys), CHECKED_AT_ONCE_COUNT)
    return [[(key, known.get(key)) for key in keys[start : start + CHECKED_AT_ONCE_COUNT]] for start in starts]


async def rebuild_views(
    ledger: Ledger, portion: tuple[int, Sequence[StreamKey], Sequence[str]]
) -> tuple[int, int, list[str]]:
    """Drop the views of a partition and build them again from its streams. Raises StoreError.

    The names are those of its views besides the fixed ones. Return the numbers of streams and events, and the texts of
    what could not be read.
    """
    partition, keys, names = portion
    events = 0

    def count(caught: CaughtUp) -> None:
        nonlocal events
        events += caught.events

    engine = Engine(ledger.store, before_step=Repairs(ledger))
    problems = await project_anew(ledger.store, engine, partition, keys, done=count, names=names)
    return len(keys), events, [problem.text for problem in problems]


def processes_for(stated: int | None, streams: int) -> int:
    """Return the number of processes: as stated, else one a core, as long as each has enough to do."""
    return stated or max(1, min(os.cpu_count() or 1, streams // STREAMS_OF_A_PROCESS_COUNT))


async def results_of(
    work: Callable[[Ledger, P], Awaitable[T]], ledger: Ledger, portions: Sequence[P], count: int
) -> AsyncIterator[T]:
    """Do all portions, in `count` processes if there are several, and yield the results, in their order.

    Raises the errors of the work; StoreError when a process was killed.
    """
    if count == 1:
        for portion in portions:
            yield await work(ledger, portion)
        return
    processes = Processes(count, _begin)
    waiting: deque[Future[T]] = deque()
    try:
        for portion in portions:
            if len(waiting) == AHEAD_COUNT * count:
                yield await asyncio.wrap_future(waiting.popleft())
            waiting.append(processes.submit(_done, ledger.server_url, work, portion))
        while waiting:
            yield await asyncio.wrap_future(waiting.popleft())
    except BrokenExecutor as error:
        raise StoreError("a process of this command ended by itself; run the command again") from error
    finally:
        processes.kill(waits=True)


# --- in a process ----------------------------------------------------------------------------------------------------


def _begin() -> None:
    collect_rarely()
    set_up("upkeep")


def _done(url: str, work: Callable[[Ledger, P], Awaitable[T]], portion: P) -> T:
    runner, ledger = _connected(url)

    async def done() -> T:
        return await work(ledger, portion)

    return runner.run(done())


@cache
def _connected(url: str) -> tuple[asyncio.Runner, Ledger]:
    """Connect with the first portion, so that an error is told as that of one."""
    runner = asyncio.Runner()
    logging.disable(logging.WARNING)  # the command's own connection told the same
    ledger = runner.run(Ledger.connect(url, entry_points=False).__aenter__())
    logging.disable(logging.NOTSET)
    return runner, ledger
