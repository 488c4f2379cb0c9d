"""All event streams of this gateway: opening, serving, ending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Final

from ledger import Ledger
from ledger.client.tokens import Tokens
from ledger.core.errors import InputError
from ledger.log.tail import entry_at, nothing_folded, read_folds
from ledger.session.state import Request, SessionState, in_order
from ledger.stores.port import Position, StreamKey
from workers.gateway.events.audience import Audience, EventSelection
from workers.gateway.events.cursors import SessionCursor, parse_feed_cursor, parse_session_cursor
from workers.gateway.events.follower import Follower
from workers.gateway.events.frames import frames_of
from workers.gateway.events.hub import Hub
from workers.gateway.events.readers import EventForm, Reader, ReaderGroup, StreamForm
from workers.gateway.events.ring import Item, Ring
from workers.gateway.principals import Principal
from workers.gateway.quotas import Holdings, RateLimitedError

_ALL_PARTS: Final = 2**53


async def events_after(hub: Hub, key: StreamKey, cursor: SessionCursor, head: Position) -> AsyncIterator[Item]:
    """Return the events after the cursor, up to the entry `head`. Raises InputError for an unknown id, StoreError."""
    if await entry_at(hub.store, key, cursor.at) is None:
        raise InputError(
            f"session `{key.id}` has no event `{cursor}`; leave `Last-Event-ID` out to start again",
            session=key.id,
        )
    return _events_after(hub, key, cursor, head)


async def _events_after(hub: Hub, key: StreamKey, cursor: SessionCursor, head: Position) -> AsyncIterator[Item]:
    parts = _ALL_PARTS if cursor.parts is None else cursor.parts
    after, lineage = nothing_folded(key), tuple[str, ...]()
    async for recorded, folded in read_folds(hub.store, key, after, head.version):
        before, after = after, folded
        if recorded.version == 1:
            lineage = await hub.lineage_of(getattr(after.state, "parent", None))
        if recorded.version < cursor.at.version:
            continue
        for frame in frames_of(key, recorded, before.state, after.state, lineage):
            if recorded.version > cursor.at.version or frame.part > parts:
                part = None if frame.part == frame.parts else frame.part
                yield Item(frame, str(SessionCursor(frame.at, part)))


STREAMS_COUNT_MAX: Final = 5000
"""Limit of open event streams at one gateway."""

GATHER_SECONDS: Final = 0.004
"""Events that arrive within this time are written together."""

REST_SHARE: Final = 4.0
"""Pause after a write to many readers, as a multiple of the time that it took. Asks and answers are served first, and
gathered events cost each reader one write.
"""

WRITTEN_AT_ONCE_COUNT: Final = 200
"""Readers served before other tasks run."""

REST_SECONDS_MAX: Final = 0.25
HEARTBEAT_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 1.0
"""Interval of checks of tokens and heartbeats."""

SNAPSHOT_BYTES: Final = 64 * 1024
"""Approximate size of one write of a snapshot."""

EVENTS: Final = EventForm()


class EventStreams:
    """The service that the routes use. It starts with the first stream that is opened."""

    def __init__(self, ledger: Ledger, holdings: Holdings) -> None:
        self._holdings = holdings
        self._store = ledger.store
        self._tokens: Tokens = ledger.tokens
        self.hub = Hub(ledger)
        self._channels: dict[tuple[int, Audience, str], ReaderGroup] = {}
        self._by_ring: dict[int, set[ReaderGroup]] = {}
        self._grown: set[int] = set()
        self._dirty = asyncio.Event()
        self._readers: set[Reader] = set()
        self._opening_count = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self.hub.on_ring = self._rang

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.hub.close()

    def end_all(self) -> None:
        """End all streams because the gateway stops: readers reconnect elsewhere with the ids that they have."""
        self._closing = True
        for reader in list(self._readers):
            reader.end("stream.end", "this gateway is shutting down; connect again")

    @property
    def count(self) -> int:
        """Return the number of open streams."""
        return len(self._readers)

    # --- opening ----------------------------------------------------------------------------------------------------

    async def of_session(self, session: str, principal: Principal, last_id: str | None) -> Reader:
        """Return a reader of a session's events. Raises InputError for an unknown id, StoreError, DamageError."""
        self._make_room(principal)
        cursor = None if last_id is None else parse_session_cursor(last_id)
        key = StreamKey("session", session)
        audience = Audience(key=key)
        held = [await self.hub.follow(key)]
        ring = held[0].watch()
        try:
            number, position = ring.end, held[0].position
            if cursor is None:
                prelude = self._snapshot_of_session(held[0])
            else:
                items = await events_after(self.hub, key, cursor, position)
                prelude = _joined(EVENTS, items)
        except BaseException:
            held[0].unwatch()
            raise

        def anew() -> tuple[AsyncIterator[bytes], int]:
            reader.end("resync", "the log is not what it was; connect again, without an id")
            return _pieces([]), ring.end

        def closed(reader: Reader) -> None:
            held[0].unwatch()
            self._closed(reader)

        reader = Reader(
            self._channel(ring, audience, EVENTS),
            prelude,
            number,
            token_id=principal.token_id,
            place=lambda: str(held[0].position),
            anew=anew,
            opened=self._opened,
            closed=closed,
        )
        return reader

    async def of_all(
        self, principal: Principal, wanted: EventSelection, last_id: str | None, form: StreamForm = EVENTS
    ) -> Reader:
        """Return a reader of all sessions and projects in reach that match the selection. Raises as `of_session`."""
        self._make_room(principal)
        await self.hub.follow_all()
        audience = Audience.of(principal, wanted)
        cursor = None if last_id is None else parse_feed_cursor(last_id)
        if cursor is None:
            prelude, number = self._snapshot(audience, form)
        elif self.hub.can_resume(cursor):
            prelude, number = _pieces([form.begin()]), cursor.number
        else:
            prelude, number = self._snapshot(audience, form, "the events since your last id are no longer available")
        return Reader(
            self._channel(self.hub.ring, audience, form),
            prelude,
            number,
            token_id=principal.token_id,
            place=lambda: str(self.hub.cursor),
            anew=lambda: self._snapshot(audience, form, "the log is not what it was"),
            opened=self._opened,
            closed=self._closed,
        )

    async def from_now(self, principal: Principal, wanted: EventSelection, form: StreamForm) -> Reader:
        """Return a reader in another form, without a snapshot and without resuming."""
        return await self.of_all(principal, wanted, None, form)

    def _make_room(self, principal: Principal) -> None:
        self._holdings.require_stream(principal.token_id)
        if self._closing or len(self._readers) >= STREAMS_COUNT_MAX:
            raise RateLimitedError(
                f"this gateway serves {STREAMS_COUNT_MAX} event streams at most, or is shutting down; try again",
                retry_after=1,
            )
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._serve(), name="serve events"),
                asyncio.create_task(self._look(), name="look after event streams"),
            ]

    # --- snapshots --------------------------------------------------------------------------------------------------

    def _snapshot_of_session(self, follower: Follower) -> AsyncIterator[bytes]:
        waiting = in_order(follower.state.pending.values())
        replayed = [_replay(follower, request, EVENTS) for request in waiting]
        return _pieces([EVENTS.begin(), *replayed, EVENTS.snapshot_end(str(follower.position), len(replayed))])

    def _snapshot(
        self, audience: Audience, form: StreamForm, resync: str | None = None
    ) -> tuple[AsyncIterator[bytes], int]:
        """Return the pending requests, nearest deadline first, and the number to continue at.

        Both are of one moment, because nothing is awaited here.
        """
        waiting: list[tuple[tuple[bool, int, int], Follower, Request]] = []
        for follower in self.hub.followers.pending.values():
            state: SessionState = follower.state
            for request in state.pending.values():
                if audience.sees_state(state, request, follower.lineage):
                    deadline = request.deadline_ms
                    waiting.append(((deadline is None, deadline or 0, request.asked_ms), follower, request))
        waiting.sort(key=lambda one: one[0])
        begin = form.begin() + (b"" if resync is None else form.resync(resync))
        replayed = [_replay(follower, request, form) for _, follower, request in waiting]
        return _pieces([begin, *replayed, form.snapshot_end(str(self.hub.cursor), len(replayed))]), self.hub.ring.end

    # --- serving ----------------------------------------------------------------------------------------------------

    def _channel(self, ring: Ring, audience: Audience, form: StreamForm) -> ReaderGroup:
        place = (id(ring), audience, form.name)
        return self._channels.get(place) or ReaderGroup(ring, audience, form)

    def _opened(self, reader: Reader) -> None:
        channel = reader.channel
        place = (id(channel.ring), channel.audience, channel.form.name)
        channel = reader.channel = self._channels.setdefault(place, channel)
        channel.readers.add(reader)
        self._by_ring.setdefault(id(channel.ring), set()).add(channel)
        self._readers.add(reader)
        reader.wrote_at = asyncio.get_running_loop().time()
        if not self._holdings.open_stream(reader.token_id):
            reader.end("stream.end", "this token has the maximum of event streams open")
        if self._closing:
            reader.end("stream.end", "this gateway is shutting down; connect again")

    def _closed(self, reader: Reader) -> None:
        channel = reader.channel
        self._readers.discard(reader)
        self._holdings.close_stream(reader.token_id)
        channel.readers.discard(reader)
        if channel.readers:
            return
        number = id(channel.ring)
        self._channels.pop((number, channel.audience, channel.form.name), None)
        self._by_ring.get(number, set()).discard(channel)
        if not self._by_ring.get(number):
            self._by_ring.pop(number, None)

    def _rang(self, ring: Ring) -> None:
        if id(ring) in self._by_ring:
            self._grown.add(id(ring))
            self._dirty.set()

    async def _serve(self) -> None:
        """Let all readers write what was published, and pause in proportion to the time that took."""
        loop = asyncio.get_running_loop()
        while True:
            await self._dirty.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._dirty.clear()
            grown, self._grown = self._grown, set()
            readers = [one for number in grown for channel in self._by_ring.get(number, ()) for one in channel.readers]
            seconds = 0.0
            for first in range(0, len(readers), WRITTEN_AT_ONCE_COUNT):
                began = loop.time()
                for reader in readers[first : first + WRITTEN_AT_ONCE_COUNT]:
                    reader.go_on()
                seconds += loop.time() - began
                await asyncio.sleep(0)
            await asyncio.sleep(min(seconds * REST_SHARE, REST_SECONDS_MAX))

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._tokens.on_change(self._end_revoked)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._end_revoked()
            late = loop.time() - HEARTBEAT_SECONDS
            for reader in self._readers:
                if reader.wrote_at <= late:
                    reader.beat()

    def _end_revoked(self) -> None:
        ids = {reader.token_id for reader in self._readers if reader.token_id is not None}
        over = {one for one in ids if not self._tokens.still_in_force(one)}
        for reader in [one for one in self._readers if one.token_id in over] if over else ():
            reader.end("stream.end", "the token was revoked or has expired")


def _replay(follower: Follower, request: Request, form: StreamForm) -> bytes:
    place = (form.name, request.request_id)
    known = follower.replays.get(place)
    if known is None or known[0] is not request:
        known = follower.replays[place] = (request, form.replay(follower.state, request, follower.lineage))
    return known[1]


async def _pieces(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the same bytes in pieces of about `SNAPSHOT_BYTES`."""
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= SNAPSHOT_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


async def _joined(form: StreamForm, items: AsyncIterator[Item]) -> AsyncIterator[bytes]:
    held = form.begin()
    async for item in items:
        held += form.event(item)
        if len(held) >= SNAPSHOT_BYTES:
            yield held
            held = b""
    if held:
        yield held
