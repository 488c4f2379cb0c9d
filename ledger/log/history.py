"""The history of a stream: a resumable tail of its events, and the state as of a version or a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

import msgspec

from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, UnknownSessionError
from ledger.core.events import Actor, Event, event_type
from ledger.core.grants import Recorded
from ledger.core.times import format_time, parse_moment
from ledger.log.fresh_folds import fold_before, fresh_state
from ledger.log.stream import Stream
from ledger.log.streams import Streams
from ledger.log.tail import Folded, read_events, read_folds
from ledger.stores.port import Position, Store, StreamKey

S = TypeVar("S")


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
