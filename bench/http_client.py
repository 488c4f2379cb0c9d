"""A minimal HTTP client with a kept-alive connection, for measuring a gateway only."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self


class Connection:
    """One kept-alive connection on a unix socket; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._token = token

    @classmethod
    async def open(cls, socket: str, token: str) -> Self:
        return cls(*await asyncio.open_unix_connection(socket, limit=2**22), token)

    def close(self) -> None:
        self._writer.close()

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request, bytes unchanged; return the status and the body, parsed as JSON."""
        status, content = await self._answer(method, path, body)
        return status, json.loads(content) if content else None

    async def get(self, path: str) -> tuple[int, bytes]:
        """Read a page of any type; return the status and the body."""
        return await self._answer("GET", path, None)

    async def _answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self._write(method, path, data)
        status, headers = await self._head()
        return status, await self._reader.readexactly(int(headers.get(b"content-length", b"0")))

    async def listen(self, path: str) -> asyncio.StreamReader:
        """Open a stream and return its lines, in chunks."""
        self._write("GET", path, b"")
        status, _ = await self._head()
        assert status == 200, status
        return self._reader

    def _write(self, method: str, path: str, data: bytes) -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)

    async def _head(self) -> tuple[int, dict[bytes, bytes]]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        named = (line.partition(b": ") for line in lines)
        return int(first.split()[1]), {name.lower(): value for name, _, value in named}
