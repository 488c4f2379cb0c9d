"""The history of a stream: a resumable tail of its events, and the state as of a version or a time.

`HistoryCache` keeps past folds of long streams, from which a past state is computed without folding from the start.
Folds share their structure, so that keeping many is cheap. The cache may be discarded at any time, and is when the
server turns out to hold another history.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from ledger.core.codec import NewerEvent
from ledger.core.errors import DamageError, InputError, UnknownSessionError
from ledger.core.events import Actor, Event, event_type
from ledger.core.grants import Recorded
from ledger.core.times import format_time, parse_moment
from ledger.log.fold_cache import SizedCache, cache_bytes, fold_bytes, past_bytes
from ledger.log.fresh_folds import fold_before, fresh_state
from ledger.log.stream import Stream
from ledger.log.streams import Streams
from ledger.log.tail import Folded, nothing_folded, read_events, read_folds
from ledger.stores.port import Position, StreamKey
from ledger.stores.store import Store

S = TypeVar("S")
T = TypeVar("T")


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event for readers. `id` is the entry's, `event_id` the writer's."""

    key: StreamKey
    id: str
    version: int
    ms: int
    actor: Actor
    event: Event | NewerEvent
    event_id: str
    redacted: bool = False
    """True when its detail was taken out of the log."""

    @property
    def type(self) -> str:
        return self.event.event_type if isinstance(self.event, NewerEvent) else event_type(self.event)

    def as_json(self) -> dict[str, Any]:
        """Return the object of CONTRACT's `log` row."""
        event = msgspec.to_builtins(self.event)
        if isinstance(event.get("detail"), dict):
            # Of use only to who checks a stream's bytes.
            event["detail"].pop("salt", None)
        return {
            "id": self.id,
            "version": self.version,
            "type": self.type,
            "at": format_time(self.ms),
            "actor": msgspec.to_builtins(self.actor),
            "event": event,
            **({"redacted": True} if self.redacted else {}),
        }


def logged(key: StreamKey, recorded: Recorded) -> LoggedEvent:
    return LoggedEvent(
        key=key,
        id=str(Position(recorded.ms, recorded.version)),
        version=recorded.version,
        ms=recorded.ms,
        actor=recorded.actor,
        event=recorded.event,
        event_id=recorded.event_id,
        redacted=recorded.redacted,
    )


async def follow(
    streams: Streams, store: Store, stream: Stream[Any], after: int, *, follow_on: bool
) -> AsyncIterator[LoggedEvent]:
    """Iterate over the events after version `after`: first the present ones, then each new one."""
    key = stream.key
    if not follow_on:
        async for recorded in read_events(store, key):
            if recorded.version > after:
                yield logged(key, recorded)
        return
    queue: asyncio.Queue[Recorded | None] = asyncio.Queue()
    stop = stream.observe(queue.put_nowait)
    try:
        await streams.watch(stream)
        last = after
        while True:
            await stream.refresh()
            async for recorded in read_events(store, key):
                if recorded.version > last:
                    last = recorded.version
                    yield logged(key, recorded)
            # None: the stream was folded again, so the next events are read from the server.
            while (fresh := await queue.get()) is not None:
                if fresh.version > last:
                    last = fresh.version
                    yield logged(key, fresh)
    finally:
        stop()


class Moment(msgspec.Struct, Generic[S], frozen=True):
    """A past state, with its version and the time (server ms) of that version."""

    state: S
    version: int
    ms: int


async def state_at(store: Store, key: StreamKey, at: str | int | None) -> Moment[Any]:
    """Return the state as of a version, or after the last event at or before a time (server ms); None is now.

    A state after the stream's snapshot begins there. Raises UnknownSessionError for a moment before the first event.
    """
    if at is None:
        now = await fresh_state(store, key)
        if now.version == 0:
            raise _unknown(key)
        return Moment(now.state, now.version, now.position.ms)
    version, ms = (at, None) if isinstance(at, int) else (None, parse_moment(at))
    begin = await fold_before(store, key, lambda position: is_until(position, version, ms))
    return await last_until(key, begin, read_folds(store, key, begin), at, version=version, ms=ms)


async def last_until(
    key: StreamKey,
    begin: Folded[S],
    folds: AsyncIterator[tuple[Recorded, Folded[S]]],
    at: object,
    *,
    version: int | None,
    ms: int | None,
) -> Moment[S]:
    """Return the last of these folds that is not after a version or a time; errors name it as `at`.

    Raises UnknownSessionError before the first event, InputError for a version that does not exist yet.
    """
    found = begin
    async for recorded, folded in folds:
        if not is_until(folded.position, version, ms):
            if found.version == 0 and ms is not None:
                raise _before_the_first(key, at, recorded.ms)
            break
        found = folded
    if found.version == 0:
        raise _unknown(key, "" if at is None else f" at `{at}`")
    if version is not None and found.version < version:
        raise InputError(f"{key.kind} `{key.id}` has {found.version} versions, not {version}")
    return Moment(found.state, found.version, found.position.ms)


def is_until(position: Position, version: int | None, ms: int | None) -> bool:
    """Return whether a position is not after a version and a time; None is no bound."""
    return (version is None or position.version <= version) and (ms is None or position.ms <= ms)


def _before_the_first(key: StreamKey, at: object, first_ms: int) -> UnknownSessionError:
    """Return the error for a moment before the first event of a stream."""
    return UnknownSessionError(
        f"{key.kind} `{key.id}` began at {format_time(first_ms)}, after `{at}`",
        began_at=format_time(first_ms),
        hint=f"give a moment from {format_time(first_ms)} on",
        **{key.kind: key.id},
    )


def _unknown(key: StreamKey, when: str = "") -> UnknownSessionError:
    return UnknownSessionError(f"there is no {key.kind} `{key.id}`{when}", **{key.kind: key.id})


FOLD_EVERY_VERSIONS: Final = 250
"""Versions between two cached folds; twice as many whenever those of one stream take too much room."""

PAGE_COUNT: Final = 250
"""Entries that are folded between two turns of the event loop."""


class Passed(NamedTuple):
    """An event, and the state before it."""

    before: Any
    recorded: Recorded


class _Marks:
    """The cached folds of one stream, in order of version; who folds takes the `turn`."""

    def __init__(self, key: StreamKey) -> None:
        self.turn = asyncio.Lock()
        self.folds: list[Folded[Any]] = [nothing_folded(key)]
        self.every_versions = FOLD_EVERY_VERSIONS

    def add(self, folded: Folded[Any]) -> bool:
        """Add a fold if it is the next one to be cached; return whether it was."""
        if folded.version != self.folds[-1].version + self.every_versions:
            return False
        self.folds.append(folded)
        return True

    @property
    def size_bytes(self) -> int:
        past = len(self.folds) - 1
        return past * past_bytes(self.every_versions) + fold_bytes(self.folds[-1].state)

    def thin(self) -> None:
        """Drop every other fold."""
        self.folds[:] = self.folds[::2]
        self.every_versions *= 2


class HistoryCache:
    """The cached folds of recently read streams. `most_bytes` is that of the process's setting by default."""

    def __init__(self, store: Store, most_bytes: int | None = None) -> None:
        self._store = store
        self._most_bytes = cache_bytes("history") if most_bytes is None else most_bytes
        self._marks: SizedCache[_Marks] = SizedCache(self._most_bytes)
        self._redacted: dict[StreamKey, int] = {}

    def forget_before(self, key: StreamKey, redacted_version: int) -> None:
        """Drop the folds of a stream that were made before its last redaction, whose version the caller knows."""
        if redacted_version > self._redacted.get(key, 0):
            self._redacted[key] = redacted_version
            self._marks.drop(key)

    async def state_at(self, key: StreamKey, *, version: int | None = None, ms: int | None = None) -> Moment[Any]:
        """Return the state as of a version, or after the last event at or before a time (server ms).

        Raises InputError for a version that does not exist yet, UnknownSessionError before the first, DamageError.
        """
        return await self._retried(key, lambda: self._state_at(key, version, ms))

    async def page(self, key: StreamKey, after: int, limit: int) -> list[LoggedEvent]:
        """Return at most `limit` events after a version. Raises DamageError."""
        return [logged(key, one.recorded) for one in await self.passed(key, after, limit)]

    async def passed(self, key: StreamKey, after: int, limit: int) -> list[Passed]:
        """Return at most `limit` events after a version, each with the state before it. Raises DamageError.

        Readers of one stream take turns: the second one of a page finds the folds that the first one has made.
        """
        return await self._retried(key, lambda: self._passed(key, after, limit))

    async def _retried(self, key: StreamKey, read: Callable[[], Awaitable[T]]) -> T:
        """Read again without the cached folds where these do not fit the log."""
        try:
            return await read()
        except DamageError:
            if not self._marks.drop(key):
                raise
            return await read()

    async def _state_at(self, key: StreamKey, version: int | None, ms: int | None) -> Moment[Any]:
        marks = self._marks_of(key)
        async with marks.turn:
            begin = [one for one in marks.folds if one.version == 0 or is_until(one.position, version, ms)][-1]
            at = version if ms is None else format_time(ms)
            return await last_until(key, begin, self._walk(key, marks, begin), at, version=version, ms=ms)

    async def _passed(self, key: StreamKey, after: int, limit: int) -> list[Passed]:
        marks = self._marks_of(key)
        async with marks.turn:
            begin = marks.folds[bisect_right(marks.folds, after, key=lambda one: one.version) - 1]
            before, found = begin.state, list[Passed]()
            async for recorded, folded in self._walk(key, marks, begin):
                if recorded.version > after:
                    found.append(Passed(before, recorded))
                before = folded.state
                if len(found) == limit:
                    break
            return found

    def _marks_of(self, key: StreamKey) -> _Marks:
        return self._marks.get(key) or self._keep(key, _Marks(key))

    def _keep(self, key: StreamKey, marks: _Marks) -> _Marks:
        while marks.size_bytes > self._most_bytes and len(marks.folds) > 1:
            marks.thin()
        for dropped in self._marks.put(key, marks, marks.size_bytes):
            self._redacted.pop(dropped, None)
        return marks

    async def _walk(
        self, key: StreamKey, marks: _Marks, begin: Folded[Any]
    ) -> AsyncIterator[tuple[Recorded, Folded[Any]]]:
        """Iterate over the events after a cached fold, with the fold after each. Safe to run concurrently."""
        async for recorded, folded in read_folds(self._store, key, begin, count=PAGE_COUNT):
            if marks.add(folded) and self._marks.get(key) is marks:
                self._keep(key, marks)
            yield recorded, folded
