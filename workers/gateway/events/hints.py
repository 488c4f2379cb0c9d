"""Hints for readers of the whole ledger: which requests of which sessions changed. A reader asks for what it shows.

Wake-ups bring most changes. Wake-ups may be lost, so the lines of the feeds are compared with them at intervals; after a
connection was lost, all readers are told to read again. No contents are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from ledger import Ledger
from ledger.core import codec
from ledger.core.codec import NewerEvent
from ledger.core.errors import DamageError, LedgerError
from ledger.core.events import Asked, ClientConnected, Event, Reopened
from ledger.core.limits import PAGE_COUNT
from ledger.core.policy import Verdict
from ledger.core.times import format_time
from ledger.log.streams import Streams
from ledger.session.state import SessionState, in_order
from ledger.stores.port import Entry, Position, StreamKey, WakeUp
from workers.gateway.events.frames import ASKED, NAMES, type_of
from workers.gateway.principals import Bounds

DEPTH_MAX: Final = 32
"""Levels of parent sessions that are followed."""

SUBSCRIBED_AT_ONCE_COUNT: Final = 32
LINES_AT_ONCE_COUNT: Final = 100
"""Lines of each partition's feed that are compared at once."""

NO_GROUP: Final = "events"
"""The name of a group that nobody reads the feeds with."""

COMPARE_SECONDS: Final = 60.0
"""Interval between comparisons with the feeds when nothing seems to be missing."""

AGAIN_SECONDS: Final = 1.0
CLOCK_MARGIN_MS: Final = 1000
"""Tolerated difference between the clocks of a cluster's servers, and in the estimate of their time."""

MOVED: Final = "permission.deadline_moved"

_NAMES: Final = {
    **NAMES,
    "replied": "permission.replied",
    "expired": "permission.timeout",
    "cancelled": "permission.cancelled",
    "deadline_moved": MOVED,
    "granted": "grant.created",
    "revoked": "grant.revoked",
    "use_taken": "grant.used",
    "session_opened": "session.opened",
    "session_closed": "session.closed",
}

log = logging.getLogger(__name__)


async def lineage_of(
    streams: Streams, state: SessionState, reaches: Callable[[SessionState], bool] = lambda _: True
) -> list[str]:
    """Return the sessions above this one that the caller `reaches`, the root first. Raises StoreError.

    A session's parent never changes, so each is read once.
    """
    above: list[str] = []
    seen: set[str] = set()
    while state.parent is not None and state.parent not in seen and len(seen) < DEPTH_MAX:
        seen.add(state.parent)
        stream = streams.session(state.parent)
        try:
            state = stream.state if stream.folded else await stream.refresh()
        except DamageError:
            # The sessions above it are unknown; that is no reason to hide the requests below it.
            state = SessionState(session_id=stream.key.id)
        if reaches(state):
            above.append(state.session_id)
    return above[::-1]


class LogChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change that the log has; `state` is that of its session, then or later, None for a project's stream."""

    key: StreamKey
    at: Position
    name: str
    event: Event | NewerEvent
    request_id: str | None
    project: str | None
    state: SessionState | None
    lineage: Sequence[str]

    @property
    def session(self) -> str | None:
        return getattr(self.event, "session", None) if self.state is None else self.state.session_id

    def as_hint(self) -> bytes:
        """Return the hint as a server-sent event."""
        row = {
            "session": self.session,
            "project": self.project,
            "request_id": self.request_id,
            "grant_id": getattr(self.event, "grant_id", None),
            "version": self.at.version,
            "at": format_time(self.at.ms),
        }
        known = {name: value for name, value in row.items() if value is not None}
        return b"event: %s\ndata: %s\n\n" % (self.name.encode(), msgspec.json.encode(known))


class EventSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The reader's selection. `tree` is a session with its sub-agents; `directory` is the agent's working folder."""

    session: str | None = None
    tree: str | None = None
    project: str | None = None
    agent: str | None = None
    directory: str | None = None


class Audience(msgspec.Struct, frozen=True):
    """Readers with the same reach and the same selection."""

    bounds: Bounds = Bounds()
    wanted: EventSelection = EventSelection()

    def sees(self, change: LogChange) -> bool:
        state, wanted = change.state, self.wanted
        if state is None:
            reached, directory = self.bounds.covers_project(change.key.id), None
            agents = set[str | None]()
        else:
            reached = self.bounds.covers(state.session_id, state.project, state.token_id)
            request = None if change.request_id is None else state.find(change.request_id)
            agents = {state.agent, None if request is None else request.agent}
            directory = state.cwd
        return (
            reached
            and wanted.session in (None, change.session)
            and wanted.project in (None, change.project)
            and wanted.tree in (None, change.session, *change.lineage)
            and (wanted.agent is None or wanted.agent in agents)
            and wanted.directory in (None, directory)
        )


class Noted(NamedTuple):
    """Entries after version `known` that are not older than `head.ms`, up to version `head.version`."""

    key: StreamKey
    known: int
    head: Position
    entries: tuple[Entry, ...]


class ChangeWatch:
    """The changes in all streams since they were taken last."""

    def __init__(self, ledger: Ledger, are_wanted: Callable[[], bool]) -> None:
        """`are_wanted` tells whether anybody listens: otherwise nothing is noted."""
        self._store = ledger.store
        self._streams = ledger.streams
        self._are_wanted = are_wanted
        self.arrived = asyncio.Event()
        """Set when there are some, or when some may have been lost."""
        self._noted: list[Noted] = []
        self._is_lossy = False
        self._told: dict[StreamKey, int] = {}
        """The versions that were noted since the feeds were compared last, and before that those before."""
        self._told_before: dict[StreamKey, int] = {}
        self._ends: dict[int, str] = {}
        self._since_ms = 0
        self._beginning: asyncio.Task[None] | None = None
        self._comparing: asyncio.Task[None] | None = None
        self._look = asyncio.Event()

    async def begin(self) -> None:
        """Return when every later change is noted. Raises StoreError."""
        if self._beginning is None or (self._beginning.done() and self._comparing is None):
            self._beginning = asyncio.create_task(self._begin(), name="hints begin")
        await asyncio.shield(self._beginning)

    async def _begin(self) -> None:
        partitions = range(self._store.partition_count)
        for first in range(0, len(partitions), SUBSCRIBED_AT_ONCE_COUNT):
            some = partitions[first : first + SUBSCRIBED_AT_ONCE_COUNT]
            await asyncio.gather(*(self._streams.subscribe(one) for one in some))
        self._streams.on_wake_up(self._woken, self._gap)
        await self._go_on_from_now()
        self._comparing = asyncio.create_task(self._compare_again(), name="compare feeds")

    async def close(self) -> None:
        for task in (self._beginning, self._comparing):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, LedgerError):
                    await task

    async def take(self) -> tuple[list[LogChange], bool]:
        """Return the changes in the order of each stream's log; and whether some were lost."""
        self.arrived.clear()
        noted, self._noted = self._noted, []
        is_lossy, self._is_lossy = self._is_lossy, False
        changes: list[LogChange] = []
        for one in noted:
            try:
                changes += await self._changes_of(one)
            except DamageError as error:
                log.warning("the events of %s cannot be told: %s", one.key.name, error)
            except LedgerError as error:
                log.warning("the events of %s are not told: %s", one.key.name, error)
                is_lossy = True
        return changes, is_lossy

    # --- noting -----------------------------------------------------------------------------------------------------

    def _woken(self, wake_up: WakeUp) -> None:
        if wake_up.key.has_calls:
            self._note(wake_up.key, wake_up.head, wake_up.entries)

    def _gap(self, partition: int) -> None:
        self._lose()
        self._look.set()

    def _lose(self) -> None:
        self._is_lossy = True
        self.arrived.set()

    def _note(self, key: StreamKey, head: Position, entries: tuple[Entry, ...] = ()) -> None:
        known = max(self._told.get(key, 0), self._told_before.get(key, 0))
        if head.version <= known:
            return
        self._told[key] = head.version
        if self._are_wanted():
            self._noted.append(Noted(key, known, head, entries))
            self.arrived.set()

    async def _compare_again(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(COMPARE_SECONDS):
                    await self._look.wait()
            self._look.clear()
            try:
                await self.compare()
            except LedgerError as error:
                log.warning("the feeds could not be compared: %s", error)
                self._look.set()
                await asyncio.sleep(AGAIN_SECONDS)

    async def compare(self) -> None:
        """Note what the feeds tell of and no wake-up did. Raises StoreError."""
        since_ms, self._since_ms = self._since_ms, self._store.clock.now_ms() - CLOCK_MARGIN_MS
        self._told_before, self._told = self._told, {}
        is_complete = False
        while not is_complete:
            found = await self._store.unacknowledged(NO_GROUP, self._ends, LINES_AT_ONCE_COUNT)
            if any(lines.trimmed for lines in found):
                await self._go_on_from_now()
                self._lose()
                return
            for lines in found:
                self._ends[lines.partition] = lines.after
                for item in lines.items:
                    # A move is to the archive or back: its events are as old as before.
                    if item.key.has_calls and not item.is_move:
                        self._note(item.key, Position(since_ms, item.version))
            is_complete = all(lines.complete for lines in found)

    async def _go_on_from_now(self) -> None:
        self._since_ms = self._store.clock.now_ms() - CLOCK_MARGIN_MS
        feeds = await self._store.feeds()
        self._ends = {one.partition: one.last.place for one in feeds if one.last is not None}

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _changes_of(self, noted: Noted) -> list[LogChange]:
        key, known, head, entries = noted
        if not entries or entries[-1].version < head.version:
            entries = await self._store.read(key, Position(head.ms, 0), PAGE_COUNT)
        state, lineage = None, list[str]()
        if key.kind == "session":
            stream = self._streams.session(key.id)
            is_known = stream.folded and stream.position.version >= head.version
            state = stream.state if is_known else await stream.refresh()
            lineage = await lineage_of(self._streams, state)
        return [
            change
            for entry in entries
            if known < entry.version <= head.version
            for change in _changes_in(key, entry, state, lineage)
        ]


def _changes_in(
    key: StreamKey, entry: Entry, state: SessionState | None, lineage: Sequence[str]
) -> Iterator[LogChange]:
    event: Any = codec.decode(entry.payload, entry.content).event
    type_ = type_of(event)
    name = _NAMES.get(type_, f"{key.kind}.{type_}")
    if isinstance(event, Asked | Reopened):
        name = ASKED if event.verdict is Verdict.ASK else "permission.decided"
    change = LogChange(
        key=key,
        at=entry.position,
        name=name,
        event=event,
        request_id=getattr(event, "request_id", None),
        project=key.id if state is None else state.project,
        state=state,
        lineage=lineage,
    )
    yield change
    if isinstance(event, ClientConnected) and state is not None:
        # A client that connects gives what is pending its full time again.
        for request in in_order(state.pending.values()):
            yield msgspec.structs.replace(change, name=MOVED, request_id=request.request_id)
