"""Work on all streams that several processes can share: its portions, and what becomes of each.

Each process has its own connection to the ledger. What it logs is logged by the command.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ledger import Ledger
from ledger.access.passkeys.state import Passkey
from ledger.core.errors import StoreError
from ledger.log.verify import Head
from ledger.stores.port import StreamKey
from projections.engine import CaughtUp, Engine, project_anew
from workers.projector.repairs import Repairs
from workers.runtime.garbage import collect_rarely
from workers.runtime.pool import EndedError, ProcessPool
from workers.upkeep.stream_checks import Checked, Depth, StreamChecker, read_anchors

log = logging.getLogger(__name__)

STREAMS_OF_A_PROCESS_COUNT: Final = 2000
"""Fewer streams take less time than the start of a process."""

CHECKED_AT_ONCE_COUNT: Final = 500
"""Streams of a portion that is checked."""


class StreamsToCheck(msgspec.Struct, frozen=True):
    """Streams, and the head of each that was kept from before."""

    keys: list[StreamKey]
    heads: list[Head | None]


class PartitionToRebuild(msgspec.Struct, frozen=True):
    """A partition with its streams, and the names of its views besides the fixed ones."""

    partition: int
    keys: list[StreamKey]
    names: Sequence[str]


class RebuiltPartition(msgspec.Struct):
    """The number of streams and events whose views were rebuilt, and the texts of what could not be read."""

    partition: int
    streams: int = 0
    events: int = 0
    problems: list[str] = []


class CheckStreams(msgspec.Struct, frozen=True):
    """The check of streams; `kept` are the passkeys to trust alone."""

    depth: Depth
    kept: dict[str, Passkey] | None = None

    async def done_by(self, ledger: Ledger, portion: StreamsToCheck) -> list[Checked]:
        """Return what was found in each stream, in this order. Raises StoreError, MissingExtraError."""
        known = {key: head for key, head in zip(portion.keys, portion.heads, strict=True) if head is not None}
        anchors = await read_anchors(ledger.store, self.kept)
        checker = StreamChecker(ledger.store, known, anchors, self.depth)
        return [one async for one in checker.check_all(portion.keys)]


class RebuildViews(msgspec.Struct, frozen=True):
    """The rebuilding of all views."""

    async def done_by(self, ledger: Ledger, portion: PartitionToRebuild) -> RebuiltPartition:
        """Drop the views of a partition and build them again from its streams. Raises StoreError."""
        found = RebuiltPartition(portion.partition, len(portion.keys))

        def count(caught: CaughtUp) -> None:
            found.events += caught.events

        engine = Engine(ledger.store, before_step=Repairs(ledger))
        problems = await project_anew(
            ledger.store, engine, portion.partition, portion.keys, done=count, names=portion.names
        )
        found.problems = [problem.text for problem in problems]
        return found


def portions_to_check(keys: Sequence[StreamKey], known: dict[StreamKey, Head]) -> list[StreamsToCheck]:
    """Return streams in portions, each with what is known of them."""
    portions = [keys[start : start + CHECKED_AT_ONCE_COUNT] for start in range(0, len(keys), CHECKED_AT_ONCE_COUNT)]
    return [StreamsToCheck(list(some), [known.get(key) for key in some]) for some in portions]


class PortionWork(Protocol):
    """Work that is done portion by portion, in any order and in any process."""

    async def done_by(self, ledger: Ledger, portion: Any) -> Any: ...


def processes_for(stated: int | None, streams: int) -> int:
    """Return the number of processes: as stated, else one a core, as long as each has enough to do."""
    return stated or max(1, min(os.cpu_count() or 1, streams // STREAMS_OF_A_PROCESS_COUNT))


async def do_all(
    ledger: Ledger,
    work: PortionWork,
    portions: Sequence[Any],
    count: int,
    take: Callable[[Any], Awaitable[None] | None],
) -> None:
    """Do all portions, in `count` processes if there are several, and call `take` with each result, in their order.

    Raises the errors of the work, alone or in a group; StoreError when a process was killed.
    """
    if count == 1:
        for portion in portions:
            if (taken := take(await work.done_by(ledger, portion))) is not None:
                await taken
        return

    def take_told(told: _Told) -> Awaitable[None] | None:
        for warning in told.warnings:
            log.warning("%s", warning)
        return take(told.result)

    pool = ProcessPool(count, _begin, ledger.server_url, work)
    try:
        await pool.share(_done, portions, take_told)
    except* EndedError as error:
        raise StoreError("a process of this command ended by itself; run the command again") from error
    finally:
        pool.close()


# --- in a process ----------------------------------------------------------------------------------------------------


class _Told(NamedTuple):
    """The result of a portion, and the warnings that were logged meanwhile."""

    result: Any
    warnings: list[str]


class _Kept(logging.Handler):
    """A handler that keeps warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class _Share:
    """One process's share of some work. It connects with the first portion, so that an error is told as that of one."""

    def __init__(self, url: str, work: PortionWork) -> None:
        self._url = url
        self._work = work
        self._runner = asyncio.Runner()
        self._ledger: Ledger | None = None
        self._kept = _Kept()
        logging.getLogger().addHandler(self._kept)

    def do(self, portion: Any) -> _Told:
        result = self._runner.run(self._done(portion))
        texts, self._kept.texts = self._kept.texts, []
        return _Told(result, texts)

    async def _done(self, portion: Any) -> Any:
        if self._ledger is None:
            self._ledger = await Ledger.connect(self._url, entry_points=False).__aenter__()
            self._kept.texts.clear()  # of the connection: the command's own told the same
        return await self._work.done_by(self._ledger, portion)


_shares: Final[list[_Share]] = []


def _begin(url: str, work: PortionWork) -> None:
    collect_rarely()
    _shares.append(_Share(url, work))


def _done(portion: Any) -> _Told:
    return _shares[0].do(portion)
