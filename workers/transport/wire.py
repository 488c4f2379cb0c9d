"""HTTP/1.1 over asyncio's streams, to the gateway or an agent: only the parts that a bridge needs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from workers.transport.place import BODY_BYTES_MAX, CONNECT_SECONDS, ServerAddress

HEAD_BYTES_MAX: Final = 64 * 1024

LOST: Final = (OSError, EOFError)
"""The errors of a connection that fails, is lost, or takes too long."""


class ResponseHead(NamedTuple):
    """Status and headers of an answer, names in lower case."""

    status: int
    headers: Mapping[str, str]


class HttpConnection:
    """A connection for one request at a time. Every failure is one of `LOST`."""

    def __init__(self, place: ServerAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.place = place
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, place: ServerAddress) -> HttpConnection:
        async with asyncio.timeout(CONNECT_SECONDS):
            if place.path is not None:
                streams = await asyncio.open_unix_connection(place.path, limit=HEAD_BYTES_MAX)
            else:
                context = ssl.create_default_context() if place.tls else None
                streams = await asyncio.open_connection(place.host, place.port, ssl=context, limit=HEAD_BYTES_MAX)
        return cls(place, *streams)

    @property
    def is_open(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> ResponseHead:
        """Write a request and read the head of its answer."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: {self.place.host_header}",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self._writer.drain()
        return await self._head()

    async def _head(self) -> ResponseHead:
        try:
            text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            raise ConnectionError("the gateway's answer has a head that is too long") from None
        first, *lines = text.rstrip("\r\n").split("\r\n")
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
            raise ConnectionError("what answers at the gateway's address does not speak HTTP")
        fields = (line.partition(":") for line in lines)
        return ResponseHead(int(parts[1]), {name.strip().lower(): value.strip() for name, _, value in fields})

    async def body(self, head: ResponseHead) -> bytes:
        """Read all of an answer's body."""
        pieces = []
        size = 0
        async for piece in self.pieces(head):
            size += len(piece)
            if size > BODY_BYTES_MAX:
                raise ConnectionError(f"the gateway's answer takes more than {BODY_BYTES_MAX} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    async def pieces(self, head: ResponseHead) -> AsyncGenerator[bytes]:
        """Yield an answer's body as it comes."""
        if head.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := await self._chunk_size():
                yield await self._reader.readexactly(size)
                await self._reader.readexactly(2)
            await self._reader.readuntil(b"\r\n")
            return
        length = head.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            raise ConnectionError(f"the gateway's answer declares {length[:20]} bytes")
        if int(length):
            yield await self._reader.readexactly(int(length))

    async def _chunk_size(self) -> int:
        line = await self._reader.readuntil(b"\r\n")
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError:
            raise ConnectionError("the gateway's answer is broken") from None
        if not 0 <= size <= BODY_BYTES_MAX:
            raise ConnectionError(f"the gateway's answer has a chunk of {size} bytes")
        return size

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


class Connections:
    """A pool for one event loop: concurrent exchanges each on a connection of its own, which is reused."""

    def __init__(self, find: Callable[[], ServerAddress], idle_count: int) -> None:
        self._find = find
        self._idle_count = idle_count
        self._idle: list[HttpConnection] = []

    async def connect(self) -> HttpConnection:
        """Return a kept connection, or a new one. The caller closes it."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            await connection.close()
        return await HttpConnection.open(self._find())

    async def exchange(
        self, method: str, path: str, body: bytes, headers: Callable[[ServerAddress], Mapping[str, str]]
    ) -> tuple[ResponseHead, bytes]:
        """Return head and body of the answer; `headers` are those for the server."""
        connection = await self.connect()
        is_whole = False
        try:
            head = await connection.send(method, path, body, headers(connection.place))
            content = await connection.body(head)
            is_whole = head.headers.get("connection", "").lower() != "close"
        finally:
            if is_whole and len(self._idle) < self._idle_count:
                self._idle.append(connection)
            else:
                with suppress(OSError):
                    await connection.close()
        return head, content

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()
