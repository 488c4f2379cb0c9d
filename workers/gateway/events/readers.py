"""Readers of event streams: each an open response, all served from the same rings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from ledger.errors import LedgerError
from workers.gateway.events.audience import Audience
from workers.gateway.events.forms import Form
from workers.gateway.events.ring import Item, Ring

log = logging.getLogger(__name__)

ITEMS_AT_ONCE_COUNT: Final = 512
STUCK_SECONDS: Final = 30.0
"""How long one write may wait for a reader that takes nothing."""

HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

Send = Callable[[Any], Any]


class Channel:
    """Readers who are told the same in the same form: what is written for one of them is written for all."""

    def __init__(self, ring: Ring, audience: Audience, form: Form) -> None:
        self.ring = ring
        self.audience = audience
        self.form = form
        self.readers: set[Reader] = set()
        self._chunks: dict[int, tuple[bytes, int, bool]] = {}
        self._chunks_end = -1

    def after(self, number: int) -> tuple[bytes, int, bool] | None:
        """What comes from this number on, the number after it, and whether the reader must begin anew there.

        None: it is not here any more.
        """
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

    def _written(self, items: list[Item], number: int) -> tuple[bytes, int, bool]:
        parts: list[bytes] = []
        for index, item in enumerate(items, 1):
            if item.frame is None:
                return b"".join(parts), number + index, True
            if self.audience.sees(item.frame):
                parts.append(self._event(item))
        return b"".join(parts), number + len(items), False

    def _event(self, item: Item) -> bytes:
        written = item.written.get(self.form.name)
        if written is None:
            written = item.written[self.form.name] = self.form.event(item)
        return written


class Reader:
    """One open response (an ASGI application): first `prelude`, then what comes from `number` on.

    `place` says where such a reader is who was told everything. `anew` gives the prelude of one who must begin again,
    and where it goes on.
    """

    def __init__(
        self,
        channel: Channel,
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

    async def __call__(self, _scope: Any, receive: Callable[[], Any], send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        self._send = send
        self._opened(self)
        leaving = asyncio.create_task(_until_gone(receive), name="reader leaves")
        try:
            self.go_on()
            await asyncio.wait((leaving, self._over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._closed(self)
            leaving.cancel()
            if self._writing is not None and not self._writing.done():
                self._writing.cancel()

    def go_on(self) -> None:
        """Write what there is, unless that is being done."""
        if self._send is not None and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write(self._send), name="reader writes")

    def end(self, name: str, reason: str) -> None:
        """Say why, and close the stream."""
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
            log.info("a reader of events takes nothing any more; its stream is closed")
            self._close()
        except LedgerError as error:
            # The reader comes again, with the id it has.
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
        """What to write now; None when there is nothing."""
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
            begin, (written, self.number, is_anew) = self.number, found
            if is_anew:
                self._prelude, self.number = self._anew()
            if written:
                return written
            if self.number == begin and self._prelude is None:
                return None
        return None

    def beat(self) -> None:
        """Show that the stream is alive, where nothing else did."""
        if self._prelude is None and self._last is None and self.number == self.channel.ring.end:
            self._prelude = _one(self.channel.form.heartbeat(self._place()))
            self.go_on()


async def _one(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


async def _until_gone(receive: Callable[[], Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
