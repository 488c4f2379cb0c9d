"""The tracer worker. Any number may run at once; any may be killed.

Each partition's feed names the sessions with new events, and a consumer group shares its lines among the tracers. A
line is acknowledged when the spans that its append ends were taken by the collector, so a dead tracer's lines are taken
over. Ids and times of a span are those of the log: one that is exported twice is the same span.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from ledger import Ledger
from ledger.core.errors import DamageError, LedgerError, StoreError
from ledger.stores.admin import TRACERS
from ledger.stores.port import FeedItem
from projections.call_spans import RUN_BEGINS_MS, CallSpan
from workers.runtime.consumer import Consumer, Pause, every_append
from workers.runtime.feed_lines import TakenLines, take_lines, take_over_lines
from workers.runtime.process import Work
from workers.runtime.tracer_losses import LOSSES, loss_field
from workers.tracer.calls import CallReader, MaybeRun
from workers.tracer.exporter import SpanExport, SpansRefusedError, check_environment

log = logging.getLogger(__name__)

SPANS_AT_ONCE_COUNT: Final = 512
"""Spans of one request to the collector."""

LINES_HELD_MAX: Final = 20_000
"""Unfinished lines of this process; while the collector is away no more are taken, and the feeds hold them."""


class TracePace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of a tracer's own checks, in seconds; a wake-up makes it check at once."""

    feed_seconds: float = 5.0
    """The interval at which all feeds are read, in case a wake-up was lost."""
    claim_idle_seconds: float = 30.0
    """The time without an acknowledgement after which another tracer's lines are taken over."""


def work_of(pace: TracePace | None = None, ready: Callable[[], None] = lambda: None) -> Work:
    """Return the work of a tracer, by the variables OTEL_*. Raises MissingExtraError, InputError."""
    check_environment(os.environ)

    async def work(ledger: Ledger, stop: asyncio.Event) -> None:
        await run(ledger, stop, pace, ready)

    return work


async def run(
    ledger: Ledger, stop: asyncio.Event, pace: TracePace | None = None, ready: Callable[[], None] = lambda: None
) -> None:
    """Export spans until `stop` is set. Errors of server and collector are logged and retried."""
    export = SpanExport()
    try:
        await Tracer(ledger, export, pace or TracePace()).run(stop, ready)
    finally:
        export.close()


class _Line(msgspec.Struct):
    """A line of a feed in progress: the spans that are to be exported, and the calls that may still run."""

    item: FeedItem
    spans: list[CallSpan]
    may_run: list[MaybeRun]


class Tracer:
    """Finds calls that have ended, and exports their spans."""

    def __init__(self, ledger: Ledger, export: SpanExport, pace: TracePace) -> None:
        self._store = ledger.store
        self._export = export
        self._pace = pace
        self._calls = CallReader(ledger)
        self._consumer_name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._lines: dict[str, _Line] = {}
        self._unread: dict[str, FeedItem] = {}
        self._next_sweep = 0.0
        self._told: set[str] = set()
        self._refused_by: set[int] = set()
        self._exported_count = 0
        self._losses = dict.fromkeys(LOSSES, 0)
        self._noted = dict(self._losses)
        self._consumer = Consumer("tracer", ledger, self._pass, retry_seconds=pace.feed_seconds, concerns=every_append)

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        log.info("tracer: consumer group %s, consumer %s", TRACERS, self._consumer_name)
        ready()
        await self._consumer.run(stop)
        with suppress(LedgerError):
            await self._store.admin.leave_group(self._all, TRACERS, self._consumer_name)
        log.info("tracer: stopped, %d spans exported", self._exported_count)

    @property
    def _all(self) -> range:
        return range(self._store.partition_count)

    async def _pass(self, woken: list[int]) -> Pause:
        loop = asyncio.get_running_loop()
        if len(self._lines) + len(self._unread) < LINES_HELD_MAX:
            await self._take_lines(woken)
        await self._read()
        await self._end_waits()
        try:
            await self._send()
        finally:
            await self._note_losses()
        times = [call.since_ms + RUN_BEGINS_MS for line in self._lines.values() for call in line.may_run]
        return Pause(self._next_sweep - loop.time(), min(times, default=None))

    # --- lines --------------------------------------------------------------------------------------------------------

    async def _take_lines(self, woken: Sequence[int]) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._next_sweep:
            await self._store.admin.note(TRACERS, "began", b"1")
            idle_ms = round(self._pace.claim_idle_seconds * 1000)
            self._take(await take_over_lines(self._store, self._all, TRACERS, self._consumer_name, idle_ms))
            self._take(await take_lines(self._store, self._all, TRACERS, self._consumer_name))
            self._next_sweep = loop.time() + self._pace.feed_seconds
        elif woken:
            self._take(await take_lines(self._store, woken, TRACERS, self._consumer_name))

    def _take(self, taken: TakenLines) -> None:
        if taken.gaps:
            self._losses["gaps"] += len(taken.gaps)
            log.warning(
                "tracer: fell behind the feeds of %d partitions: the spans of calls that ended meanwhile are missing",
                len(taken.gaps),
            )
        for item in taken.items:
            if item.item_id not in self._lines:
                self._unread[item.item_id] = item

    async def _read(self) -> None:
        """Read the appends that new lines name. A line whose stream cannot be read is told of once, and passed over."""
        for item in list(self._unread.values()):
            line = _Line(item, [], [])
            if item.key.kind == "session" and not item.is_move:
                try:
                    found = await self._calls.read(item.key.id, item.version)
                    line = _Line(item, list(found.spans), list(found.may_run))
                except StoreError:
                    raise
                except LedgerError as error:
                    self._tell(item.key.name, error.text)
            self._lines[item.item_id] = line
            del self._unread[item.item_id]

    def _tell(self, stream: str, text: str) -> None:
        if stream not in self._told:
            self._told.add(stream)
            log.warning("tracer: skipped: %s", text)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _end_waits(self) -> None:
        """Settle the calls whose time to begin a run is over."""
        now_ms = await self._store.now_ms() if any(line.may_run for line in self._lines.values()) else 0
        for line in self._lines.values():
            for call in list(line.may_run):
                if now_ms < call.since_ms + RUN_BEGINS_MS:
                    continue
                try:
                    span = await self._calls.not_run(call)
                    line.spans += [] if span is None else [span]
                except DamageError as error:
                    self._tell(line.item.key.name, error.text)
                line.may_run.remove(call)

    async def _send(self) -> None:
        """Export all spans and acknowledge the finished lines. Raises ExportError, StoreError."""
        waiting = [line for line in self._lines.values() if line.spans]
        try:
            while waiting:
                some = _at_once(waiting)
                await self._send_some([span for line in some for span in line.spans])
                for line in some:
                    line.spans.clear()
                waiting = waiting[len(some) :]
        finally:
            await self._acknowledge([line for line in self._lines.values() if not line.spans and not line.may_run])

    async def _send_some(self, spans: Sequence[CallSpan]) -> None:
        """Export spans; those that are refused for good are counted and given up. Raises ExportError."""
        try:
            self._exported_count += await self._export.export(spans)
            self._refused_by.clear()
        except SpansRefusedError as error:
            self._losses["refused"] += len(spans)
            # Told once for each status until spans are taken again; the count has them all.
            if error.status not in self._refused_by:
                self._refused_by.add(error.status)
                log.warning("tracer: %s; they are given up, and counted", error.text)

    async def _note_losses(self) -> None:
        for loss, count in self._losses.items():
            if count != self._noted[loss]:
                await self._store.admin.note(TRACERS, loss_field(loss, self._consumer_name), str(count).encode())
                self._noted[loss] = count

    async def _acknowledge(self, lines: Sequence[_Line]) -> None:
        if lines:
            await self._store.acknowledge(TRACERS, [line.item for line in lines])
            for line in lines:
                del self._lines[line.item.item_id]


def _at_once(lines: Iterable[_Line]) -> list[_Line]:
    """Return the first lines, at least one, whose spans fit into one request."""
    some: list[_Line] = []
    count = 0
    for line in lines:
        count += len(line.spans)
        if some and count > SPANS_AT_ONCE_COUNT:
            break
        some.append(line)
    return some
