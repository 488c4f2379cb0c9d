"""The two floors: a bare command, and our own append script, through a minimal pipelining client.

Time above the floor is not the server's. The client does the minimum: it writes once a turn of the
loop, and resolves futures with answers in order. It never reconnects, and any refusal ends the run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Self, cast
from urllib.parse import unquote, urlsplit

import hiredis

from ledger.core.limits import PAGE_COUNT
from ledger.stores.keys import Keys
from ledger.stores.port import StreamKey
from ledger.stores.redis.link import Script

Argument = bytes | str | int


class FloorClient(asyncio.Protocol):
    """One pipelining connection to a unix socket."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._awaited: deque[asyncio.Future[Any]] = deque()
        self._outbox: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, url: str) -> Self:
        """Connect to `unix:///path`."""
        _, client = await asyncio.get_running_loop().create_unix_connection(cls, unquote(urlsplit(url).path))
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            future = self._awaited.popleft()
            if future.done():
                continue
            if isinstance(reply, hiredis.ReplyError):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    def send(self, *command: Argument) -> asyncio.Future[Any]:
        """Send a command; return the future of its answer. Raises hiredis.ReplyError when it is awaited."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._awaited.append(future)
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(hiredis.pack_command(cast("Any", command)))
        return future

    def _flush(self) -> None:
        outbox, self._outbox = self._outbox, []
        if self._transport is not None:
            self._transport.write(b"".join(outbox))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def pages(self, key: str) -> int:
        """Read a stream to its end, page by page, without processing it; return the number of entries."""
        count, after = 0, "-"
        while page := await self.send("XRANGE", key, after, "+", "COUNT", PAGE_COUNT):
            count += len(page)
            after = "(" + page[-1][0].decode()
        return count


class ScriptStream:
    """A stream that only this client appends to: the cost of our script without any decision."""

    def __init__(self, client: FloorClient, keys: Keys, session: str) -> None:
        self._client = client
        self._key = StreamKey("session", session)
        self._names = keys.of_append(self._key)
        self._script = Script.named("append.lua")
        self._ms = self._version = 0

    async def append(self, payload: bytes) -> None:
        """Append one event with an unchanged deadline hint, as an ask that a rule allows is written."""
        names = self._names
        kind, _, ms = await self._client.send(
            "EVALSHA",
            self._script.sha,
            *(4, names.stream, names.due, names.feed, names.freeze),
            *(self._ms, self._version, "", "", "", "", self._key.name, names.channel, "", ""),
            *(payload, ""),
        )
        assert kind == 1, "somebody else writes to the floor's stream"
        self._ms, self._version = ms, self._version + 1
