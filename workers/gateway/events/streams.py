"""The open event streams of this gateway. A session's is exact and resumable, from its log; that of all sessions has hints."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ledger import Ledger
from ledger.client.tokens import Tokens
from ledger.core.errors import DamageError, InputError, LedgerError, StoreError
from ledger.log.fresh_folds import fold_before, fresh_state
from ledger.log.tail import Folded, entry_at, nothing_folded, read_folds
from ledger.session.state import SessionState, in_order
from ledger.stores.port import Position, StreamKey
from workers.gateway.events.frames import ASKED, Frame, frames_of, replay_row
from workers.gateway.events.hints import Audience, ChangeWatch, EventSelection, LogChange, lineage_of
from workers.gateway.principals import Principal
from workers.gateway.quotas import Holdings, RateLimitedError

RETRY_MS: Final = 1000
"""Delay before a browser reconnects."""

STREAMS_COUNT_MAX: Final = 5000
"""Limit of open event streams at one gateway."""

BATCH_SECONDS: Final = 0.25
"""The least time between two batches of hints."""

GATHER_SECONDS: Final = 0.004
"""Events that arrive within this time are written together."""

HINTS_BYTES_MAX: Final = 256 * 1024
"""Hints that a reader has not taken yet; beyond them it is told to read everything again."""

SESSION_BYTES_MAX: Final = 4 * 1024 * 1024
"""Events of a session that a reader has not taken yet; beyond them it is sent away, to resume from the log."""

HEARTBEAT_SECONDS: Final = 15.0
AGAIN_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 1.0
"""Interval of checks of tokens."""

STUCK_SECONDS: Final = 30.0
"""Time limit of one write to a reader that does not read."""

WRITE_BYTES: Final = 64 * 1024
"""Approximate size of one write of many events."""

HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

_BEGIN: Final = b"retry: %d\n\n" % RETRY_MS
_SESSION_ID: Final = re.compile(r"(\d{1,15})-(\d{1,15})(?:\.(\d{1,9}))?", re.ASCII)

log = logging.getLogger(__name__)


class SessionCursor(NamedTuple):
    """The last entry of a session that was sent, and the number of its events that were; `parts` None means all.

    Its text is the event's id: `<ms>-<version>`, the entry's own; `.<part>` follows while more events of it are to come.
    """

    at: Position
    parts: int | None

    @classmethod
    def parse(cls, text: str) -> SessionCursor:
        """Parse the id of a session's event. Raises InputError."""
        found = _SESSION_ID.fullmatch(text)
        if found is None:
            raise InputError(f"`{text[:80]}` is no event id of a session; leave `Last-Event-ID` out to start again")
        return cls(Position(int(found[1]), int(found[2])), None if found[3] is None else int(found[3]))

    def precedes(self, frame: Frame) -> bool:
        is_later_part = self.parts is not None and frame.part > self.parts
        return frame.at.version > self.at.version or (frame.at.version == self.at.version and is_later_part)


def written(frame: Frame) -> bytes:
    """Return an event of a session's stream with its id."""
    place = str(frame.at) if frame.part == frame.parts else f"{frame.at}.{frame.part}"
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (place.encode(), frame.name.encode(), frame.data)


def named(name: str, data: Any) -> bytes:
    """Return an event without an id."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


class HintForm(Protocol):
    """The serialization of changes for one kind of reader; `name` identifies it. Nothing is written where it is empty."""

    @property
    def name(self) -> str: ...

    def begin(self) -> bytes: ...

    def change(self, change: LogChange) -> bytes: ...

    def heartbeat(self) -> bytes: ...

    def told(self, name: str, reason: str) -> bytes:
        """Return an event about the stream itself."""
        ...


class OwnForm:
    """Our own form: `event` and `data`."""

    name = "hints"

    def begin(self) -> bytes:
        return _BEGIN + named("stream.open", {})

    def change(self, change: LogChange) -> bytes:
        return change.as_hint()

    def heartbeat(self) -> bytes:
        return b": heartbeat\n\n"

    def told(self, name: str, reason: str) -> bytes:
        return named(name, {"reason": reason})


HINTS: Final = OwnForm()

Send = Callable[[Any], Any]


class Reader:
    """One open response (an ASGI application): what `chunks` yields, until the reader leaves or it is ended."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes],
        token_id: str | None,
        streams: EventStreams,
        form: HintForm,
        left: Callable[[], None] = lambda: None,
    ) -> None:
        self.token_id = token_id
        self.form = form
        self._chunks = chunks
        self._streams = streams
        self._left = left
        self._last: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Any, receive: Callable[[], Any], send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        leaving = asyncio.create_task(_until_gone(receive), name="reader leaves")
        writing = asyncio.create_task(self._write(send), name="reader writes")
        try:
            self._streams.opened(self)
            await asyncio.wait((leaving, writing, self._last), return_when=asyncio.FIRST_COMPLETED)
            if self._last.done():
                writing.cancel()
                await asyncio.wait((writing,))
                with suppress(TimeoutError):
                    await _send(send, self._last.result(), is_last=True)
        finally:
            self._streams.closed(self)
            self._left()
            leaving.cancel()
            writing.cancel()
            await asyncio.wait((writing,))

    async def _write(self, send: Send) -> None:
        try:
            async with aclosing(self._chunks) as chunks:
                async for chunk in chunks:
                    await _send(send, chunk)
            await _send(send, b"", is_last=True)
        except TimeoutError:
            log.info("a subscriber has stopped reading; its stream is closed")
        except LedgerError as error:
            # The reader reconnects with its last id.
            log.warning("an event stream is cut off: %s", error)

    def end(self, name: str, reason: str) -> None:
        """Send the reason, and close the stream."""
        if not self._last.done():
            self._last.set_result(self.form.told(name, reason))


async def _send(send: Send, body: bytes, *, is_last: bool = False) -> None:
    async with asyncio.timeout(STUCK_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": not is_last})


async def _until_gone(receive: Callable[[], Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventQueue:
    """Events that one reader has not taken yet. Beyond `bytes_max` they are replaced by `instead`, which with `ends` is the last."""

    def __init__(self, bytes_max: int, instead: bytes, *, ends: bool) -> None:
        self._bytes_max = bytes_max
        self._instead = instead
        self._ends = ends
        self._held: list[bytes] = []
        self._bytes = 0
        self._grown = asyncio.Event()
        self._is_over = False

    def put(self, events: bytes) -> None:
        if self._is_over:
            return
        self._bytes += len(events)
        if self._bytes > self._bytes_max:
            events = self._instead
            self._held, self._bytes, self._is_over = [], len(events), self._ends
        self._held.append(events)
        self._grown.set()

    def end(self, event: bytes) -> None:
        """Let the reader take what there is, and this event as the last."""
        self._held.append(event)
        self._is_over = True
        self._grown.set()

    async def chunks(self, heartbeat: Callable[[], bytes]) -> AsyncGenerator[bytes]:
        """Yield what comes, and a heartbeat where nothing does."""
        while self._held or not self._is_over:
            if not await _within(self._grown, HEARTBEAT_SECONDS):
                yield heartbeat()
                continue
            held, self._held, self._bytes = b"".join(self._held), [], 0
            self._grown.clear()
            yield held


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event is set within this time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False


class SessionFeed:
    """The events of one session as they come, read and made once for all its readers."""

    def __init__(self, ledger: Ledger, key: StreamKey) -> None:
        self.users = 0
        self.is_over = False
        """True when the log is not what it was: who comes back gets another feed."""
        self.last = b""
        """The last event for every reader, once it is over."""
        self.queues: set[EventQueue] = set()
        self.folded: Folded[SessionState] = nothing_folded(key)
        self.lineage: list[str] = []
        self._key = key
        self._store = ledger.store
        self._streams = ledger.streams
        self._stream = ledger.streams.session(key.id)
        self._woken = asyncio.Event()
        self._moved = asyncio.Event()
        self._stop = self._stream.observe(lambda _: self._woken.set())
        self._beginning = asyncio.create_task(self._begin(), name="session events begin")
        self._following: asyncio.Task[None] | None = None

    async def begun(self) -> None:
        """Return when later events reach the queues. Raises StoreError, DamageError."""
        await asyncio.shield(self._beginning)

    async def reach(self, version: int) -> None:
        """Return when the events up to this version were read. Raises DamageError."""
        while self.folded.version < version:
            if self.is_over:
                raise DamageError(f"stream `{self._key.name}` is damaged; run verify", stream=self._key.name)
            self._moved.clear()
            self._woken.set()
            await self._moved.wait()

    async def _begin(self) -> None:
        await self._streams.watch(self._stream)
        self.folded = await fresh_state(self._store, self._key)
        self.lineage = await lineage_of(self._streams, self.folded.state)
        self._following = asyncio.create_task(self._follow(), name="session events")

    def close(self) -> None:
        self._stop()
        for task in (self._beginning, self._following):
            if task is not None:
                task.cancel()

    async def _follow(self) -> None:
        while True:
            try:
                async for recorded, after in read_folds(self._store, self._key, self.folded):
                    frames = frames_of(self._key.id, recorded, self.folded.state, after.state, self.lineage)
                    self.folded = after
                    self._moved.set()
                    events = b"".join(map(written, frames))
                    for queue in self.queues:
                        queue.put(events)
            except DamageError as error:
                # An empty id makes a browser forget its last one, which the log may no longer have.
                reason = "the log is not what it was; connect again, without an id"
                log.warning("the events of %s end: %s", self._key.name, error)
                self.last = b"id:\n" + named("resync", {"reason": reason})
                self.is_over = True
                self._moved.set()
                for queue in self.queues:
                    queue.end(self.last)
                return
            except StoreError as error:
                log.warning("the events of %s are delayed: %s", self._key.name, error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            await self._woken.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._woken.clear()


class EventStreams:
    """The service that the routes use. It starts with the first stream that is opened."""

    def __init__(self, ledger: Ledger, holdings: Holdings) -> None:
        self._holdings = holdings
        self._ledger = ledger
        self._tokens: Tokens = ledger.tokens
        self._listening: dict[EventQueue, tuple[Audience, HintForm]] = {}
        self.changes = ChangeWatch(ledger, lambda: bool(self._listening))
        self._feeds: dict[StreamKey, SessionFeed] = {}
        self._readers: set[Reader] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for feed in self._feeds.values():
            feed.close()
        await self.changes.close()

    def end_all(self) -> None:
        """End all streams because the gateway stops: readers reconnect elsewhere."""
        self._closing = True
        for reader in self._readers:
            reader.end("stream.end", "this gateway is shutting down; connect again")

    @property
    def count(self) -> int:
        """Return the number of open streams."""
        return len(self._readers)

    # --- opening ----------------------------------------------------------------------------------------------------

    async def of_session(self, session: str, principal: Principal, last_id: str | None) -> Reader:
        """Return a reader of a session's events. Raises InputError for an unknown id, StoreError, DamageError."""
        self._make_room(principal)
        cursor = None if last_id is None else SessionCursor.parse(last_id)
        key = StreamKey("session", session)
        feed = self._feeds.get(key)
        if feed is None or feed.is_over:
            feed = self._feeds[key] = SessionFeed(self._ledger, key)
        feed.users += 1

        def left() -> None:
            feed.users -= 1
            if not feed.users:
                feed.close()
                if self._feeds.get(key) is feed:
                    del self._feeds[key]

        try:
            await feed.begun()
            if cursor is not None:
                await self._require_event(key, cursor)
                await feed.reach(cursor.at.version)
        except BaseException:
            left()
            raise
        return Reader(self._of_session(key, feed, cursor), principal.token_id, self, HINTS, left)

    async def _require_event(self, key: StreamKey, cursor: SessionCursor) -> None:
        if await entry_at(self._ledger.store, key, cursor.at) is None:
            raise InputError(
                f"session `{key.id}` has no event `{cursor.at}`; leave `Last-Event-ID` out to start again",
                session=key.id,
            )

    async def _of_session(
        self, key: StreamKey, feed: SessionFeed, cursor: SessionCursor | None
    ) -> AsyncGenerator[bytes]:
        """Yield what is pending, or the events after the cursor; then each event as it comes."""
        slow = named("stream.overrun", {"reason": "you read too slowly; connect again with the last id you have"})
        queue = EventQueue(SESSION_BYTES_MAX, slow, ends=True)
        feed.queues.add(queue)
        if feed.is_over:  # since this reader asked for it
            queue.end(feed.last)
        until = feed.folded.version  # what comes later is put into the queue
        try:
            if cursor is None:
                yield _BEGIN + _snapshot(feed.folded, feed.lineage)
            else:
                yield _BEGIN
                async with aclosing(self._events_after(key, cursor, until, feed.lineage)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            # Without data, so that browsers ignore it.
            async with aclosing(
                queue.chunks(lambda: b": heartbeat\nid: %s\n\n" % str(feed.folded.position).encode())
            ) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            feed.queues.discard(queue)

    async def _events_after(
        self, key: StreamKey, cursor: SessionCursor, until: int, lineage: list[str]
    ) -> AsyncGenerator[bytes]:
        store = self._ledger.store
        folded = await fold_before(store, key, lambda position: position.version < cursor.at.version)
        held = b""
        async for recorded, after in read_folds(store, key, folded, until):
            if recorded.version >= cursor.at.version:
                frames = frames_of(key.id, recorded, folded.state, after.state, lineage)
                held += b"".join(written(one) for one in frames if cursor.precedes(one))
            folded = after
            if len(held) >= WRITE_BYTES:
                yield held
                held = b""
        if held:
            yield held

    async def of_all(self, principal: Principal, wanted: EventSelection, form: HintForm = HINTS) -> Reader:
        """Return a reader of hints on all sessions and projects in reach that match the selection. Raises StoreError."""
        self._make_room(principal)
        await self.changes.begin()
        reader = self._hints(Audience(principal.bounds, wanted), form)
        return Reader(reader, principal.token_id, self, form)

    async def _hints(self, audience: Audience, form: HintForm) -> AsyncGenerator[bytes]:
        instead = form.told("resync", "you read too slowly; read again what you show")
        queue = EventQueue(HINTS_BYTES_MAX, instead, ends=False)
        self._listening[queue] = (audience, form)
        try:
            yield form.begin()
            async with aclosing(queue.chunks(form.heartbeat)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            del self._listening[queue]

    def _make_room(self, principal: Principal) -> None:
        self._holdings.require_stream(principal.token_id)
        if self._closing or len(self._readers) >= STREAMS_COUNT_MAX:
            raise RateLimitedError(
                f"this gateway serves {STREAMS_COUNT_MAX} event streams at most, or is shutting down; try again",
                retry_after=1,
            )
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._tell_changes(), name="tell changes"),
                asyncio.create_task(self._look(), name="look after event streams"),
            ]

    def opened(self, reader: Reader) -> None:
        self._readers.add(reader)
        if not self._holdings.open_stream(reader.token_id):
            reader.end("stream.end", "this token has the maximum of event streams open")
        if self._closing:
            reader.end("stream.end", "this gateway is shutting down; connect again")

    def closed(self, reader: Reader) -> None:
        self._readers.discard(reader)
        self._holdings.close_stream(reader.token_id)

    # --- serving ----------------------------------------------------------------------------------------------------

    async def _tell_changes(self) -> None:
        while True:
            await self.changes.arrived.wait()
            await asyncio.sleep(GATHER_SECONDS)
            changes, is_lossy = await self.changes.take()
            made: dict[tuple[Audience, str], bytes] = {}
            for queue, (audience, form) in self._listening.items():
                place = (audience, form.name)
                if place not in made:
                    hints = [form.change(change) for change in changes if audience.sees(change)]
                    if is_lossy:
                        hints.append(form.told("resync", "some changes may be missing; read again what you show"))
                    made[place] = b"".join(hints)
                if made[place]:
                    queue.put(made[place])
            await asyncio.sleep(BATCH_SECONDS)

    async def _look(self) -> None:
        self._tokens.on_change(self._end_revoked)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._end_revoked()

    def _end_revoked(self) -> None:
        ids = {reader.token_id for reader in self._readers if reader.token_id is not None}
        over = {one for one in ids if not self._tokens.still_in_force(one)}
        for reader in self._readers:
            if reader.token_id in over:
                reader.end("stream.end", "the token was revoked or has expired")


def _snapshot(folded: Folded[SessionState], lineage: list[str]) -> bytes:
    """Return the pending requests. Only the end has an id: a reader cut off before it gets all of them again."""
    waiting = in_order(folded.state.pending.values())
    replayed = [named(ASKED, replay_row(folded.state, one, lineage)) for one in waiting]
    end = b"id: %s\n" % str(folded.position).encode() + named("snapshot.end", {"pending": len(waiting)})
    return b"".join([*replayed, end])
