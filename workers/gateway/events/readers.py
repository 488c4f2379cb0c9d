"""Readers of event streams: each is an open response, and all are served from the same rings.

Events are server-sent events with ids from which a reader can resume.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ledger.core.errors import LedgerError
from ledger.session.state import Request, SessionState
from workers.gateway.events.audience import Audience
from workers.gateway.events.frames import replay_row
from workers.gateway.events.ring import Item, Ring

RETRY_MS: Final = 1000
"""Delay before a browser reconnects."""


class StreamForm(Protocol):
    """The serialization for one kind of reader; `name` identifies it."""

    @property
    def name(self) -> str: ...

    def begin(self) -> bytes: ...

    def event(self, item: Item) -> bytes:
        """Return an event with the position after it; empty for an event that such readers do not get."""
        ...

    def replay(self, state: SessionState, request: Request, lineage: tuple[str, ...]) -> bytes:
        """Return a request that was pending before the reader connected."""
        ...

    def snapshot_end(self, place: str, count: int) -> bytes:
        """Return the event that ends the snapshot."""
        ...

    def heartbeat(self, place: str) -> bytes: ...

    def resync(self, reason: str) -> bytes:
        """Return the event that announces a new snapshot."""
        ...

    def end(self, name: str, reason: str) -> bytes:
        """Return the last event of the stream."""
        ...


class EventForm:
    """Our own form: `id`, `event` and `data`."""

    name = "events"

    def begin(self) -> bytes:
        return b"retry: %d\n\n" % RETRY_MS

    def event(self, item: Item) -> bytes:
        if item.frame is None:
            return b""
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (item.place.encode(), item.frame.name.encode(), item.frame.data)

    def replay(self, state: SessionState, request: Request, lineage: tuple[str, ...]) -> bytes:
        return _named("permission.asked", replay_row(state, request, lineage))

    def snapshot_end(self, place: str, count: int) -> bytes:
        # A reader cut off within the snapshot has no id, and gets the whole snapshot again.
        return b"id: %s\n" % place.encode() + _named("snapshot.end", {"pending": count})

    def heartbeat(self, place: str) -> bytes:
        """Return an event without data, which browsers ignore; its id moves the reader past filtered events."""
        return b": heartbeat\nid: %s\n\n" % place.encode()

    def resync(self, reason: str) -> bytes:
        return _named("resync", {"reason": reason})

    def end(self, name: str, reason: str) -> bytes:
        # An empty id makes a browser forget its last one, which the log no longer has.
        return (b"id:\n" if name == "resync" else b"") + _named(name, {"reason": reason})


def _named(name: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


log = logging.getLogger(__name__)

ITEMS_AT_ONCE_COUNT: Final = 512
STUCK_SECONDS: Final = 30.0
"""Time limit of one write to a reader that does not read."""

HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

TRANSPORT: Final = "permission_ledger.transport"
"""ASGI extension with which the server passes the connection (an asyncio transport). Without it, events are sent by the
common `send`.
"""

Send = Callable[[Any], Any]


class Chunk(NamedTuple):
    """Bytes for all readers at one position, and their position after it.

    `framed` is the same as one chunk of a response (RFC 9112, 7.1), made once for all of them.
    """

    written: bytes
    framed: bytes
    number: int
    is_anew: bool
    """True if the readers start again with a snapshot there."""


class ReaderGroup:
    """Readers with the same audience and form: what is serialized for one of them serves all."""

    def __init__(self, ring: Ring, audience: Audience, form: StreamForm) -> None:
        self.ring = ring
        self.audience = audience
        self.form = form
        self.readers: set[Reader] = set()
        self._chunks: dict[int, Chunk] = {}
        self._chunks_end = -1

    def after(self, number: int) -> Chunk | None:
        """Return the events from this number on; None when the ring no longer has them."""
        if self._chunks_end != self.ring.end:
            self._chunks.clear()
            self._chunks_end = self.ring.end
        known = self._chunks.get(number)
        if known is None:
            items = self.ring.since(number, ITEMS_AT_ONCE_COUNT)
            if items is None:
                return None
            known = self._chunks[number] = self._written(items, number)
        return known

    def _written(self, items: list[Item], number: int) -> Chunk:
        parts: list[bytes] = []
        is_anew = False
        for item in items:
            number += 1
            if item.frame is None:
                is_anew = True
                break
            if self.audience.sees(item.frame):
                parts.append(self.form.event(item))
        written = b"".join(parts)
        return Chunk(written, b"%x\r\n%b\r\n" % (len(written), written) if written else b"", number, is_anew)


class Reader:
    """One open response (an ASGI application): first `prelude`, then the events from `number` on.

    `place` returns the position of a reader who has received everything. `anew` returns prelude and number for a reader
    that starts again.
    """

    def __init__(
        self,
        channel: ReaderGroup,
        prelude: AsyncIterator[bytes],
        number: int,
        *,
        token_id: str | None,
        place: Callable[[], str],
        anew: Callable[[], tuple[AsyncIterator[bytes], int]],
        opened: Callable[[Reader], None],
        closed: Callable[[Reader], None],
    ) -> None:
        self.channel = channel
        self.token_id = token_id
        self.number = number
        self.wrote_at = 0.0
        self._prelude: AsyncIterator[bytes] | None = prelude
        self._place = place
        self._anew = anew
        self._opened = opened
        self._closed = closed
        self._last: bytes | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writing: asyncio.Task[None] | None = None
        self._send: Send | None = None
        self._transport: asyncio.Transport | None = None

    async def __call__(self, scope: Any, receive: Callable[[], Any], send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        self._send = send
        self._transport = (scope.get("extensions") or {}).get(TRANSPORT)
        self._opened(self)
        leaving = asyncio.create_task(_until_gone(receive), name="reader leaves")
        try:
            self.go_on()
            await asyncio.wait((leaving, self._over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._send = None
            self._closed(self)
            leaving.cancel()
            if self._writing is not None and not self._writing.done():
                self._writing.cancel()

    def go_on(self) -> None:
        """Write what is available, unless a write is in progress."""
        if self._send is None or (self._writing is not None and not self._writing.done()):
            return
        if self._transport is None or not self._write_at_once(self._transport):
            self._writing = asyncio.create_task(self._write(self._send), name="reader writes")

    def _write_at_once(self, transport: asyncio.Transport) -> bool:
        """Write to a reader without a backlog, the usual case: each costs a system call and no task.

        Return False, without any effect, for a snapshot, an end, or a reader with a backlog or a closed connection.
        """
        if self._prelude is not None or self._last is not None:
            return False
        if transport.is_closing() or transport.get_write_buffer_size():
            return False
        chunk = self.channel.after(self.number)
        if chunk is None or chunk.is_anew or chunk.number != self.channel.ring.end:
            return False
        self.number = chunk.number
        if chunk.framed:
            transport.write(chunk.framed)
            self.wrote_at = asyncio.get_running_loop().time()
        return True

    def end(self, name: str, reason: str) -> None:
        """Send the reason, and close the stream."""
        if self._last is None:
            self._last = self.channel.form.end(name, reason)
            self.go_on()

    async def _write(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (chunk := await self._next()) is not None:
                async with asyncio.timeout(STUCK_SECONDS):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                self.wrote_at = loop.time()
            if self._last is not None:
                async with asyncio.timeout(STUCK_SECONDS):
                    await send({"type": "http.response.body", "body": self._last, "more_body": False})
        except TimeoutError:
            log.info("a subscriber has stopped reading; its stream is closed")
            self._close()
        except LedgerError as error:
            # The reader reconnects with its last id.
            log.warning("an event stream is cut off: %s", error)
            self._close()
        except BaseException:
            self._close()
            raise
        else:
            if self._last is not None:
                self._close()

    def _close(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    async def _next(self) -> bytes | None:
        """Return the next bytes to write; None when there are none."""
        while self._last is None:
            if self._prelude is not None:
                chunk = await anext(self._prelude, None)
                if chunk is not None:
                    return chunk
                self._prelude = None
            found = self.channel.after(self.number)
            if found is None:
                self.end("stream.overrun", "you read too slowly; connect again with the last id you have")
                return None
            begin, self.number = self.number, found.number
            if found.is_anew:
                self._prelude, self.number = self._anew()
            if found.written:
                return found.written
            if self.number == begin and self._prelude is None:
                return None
        return None

    def beat(self) -> None:
        """Send a heartbeat where nothing else was sent."""
        if self._prelude is None and self._last is None and self.number == self.channel.ring.end:
            self._prelude = _one(self.channel.form.heartbeat(self._place()))
            self.go_on()


async def _one(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


async def _until_gone(receive: Callable[[], Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
