"""Reads of streams on a Redis or Valkey server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from ledger.core.limits import PAGE_COUNT
from ledger.stores.port import Entry, Opening, Position, StreamInfo, StreamKey
from ledger.stores.redis.link import CommandLine
from ledger.stores.redis.replies import NO_SUCH_KEY, entries_of, info_of
from ledger.stores.redis.stubs import Stubs


class StreamReads(Stubs):
    """Streams page by page, their metadata, and their names. A sealed stream is refused by SealedError."""

    def range_of(self, key: StreamKey, after: Position, count: int) -> CommandLine:
        return ("XRANGE", self.keys.stream(key), f"({after}", "+", "COUNT", count)

    async def open(self, key: StreamKey) -> Opening:
        stream = self.keys.stream(key)
        commands = (("XINFO", "STREAM", stream), ("XRANGE", stream, "-", "+", "COUNT", PAGE_COUNT), ("TIME",))
        info, entries, time = await self.ask_of_streams([(key, one) for one in commands], let_through=NO_SUCH_KEY)
        return Opening(info_of(info), entries_of(entries), self._observe_time(time))

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        return entries_of((await self.ask_of_streams(((key, self.range_of(key, after, count)),)))[0])

    async def read_many(self, wanted: Sequence[tuple[StreamKey, Position]]) -> list[tuple[Entry, ...]]:
        replies = await self.ask_of_streams([(key, self.range_of(key, after, PAGE_COUNT)) for key, after in wanted])
        return [entries_of(reply) for reply in replies]

    async def info(self, key: StreamKey) -> StreamInfo | None:
        stream = self.keys.stream(key)
        (info,), (size,) = await asyncio.gather(
            self.ask_of_streams(((key, ("XINFO", "STREAM", stream)),), let_through=NO_SUCH_KEY),
            self.ask_each((("MEMORY", "USAGE", stream),)),
        )
        return info_of(info, size if isinstance(size, int) else None)

    async def streams(self) -> AsyncIterator[StreamKey]:
        async for name in self.scan(self.keys.stream_glob(), "TYPE", "stream"):
            key = self.keys.parse_stream(name)
            if key is not None:
                yield key
