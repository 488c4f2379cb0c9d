"""Reads of streams on a Redis or Valkey server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from redis.exceptions import ResponseError

from ledger.core.limits import PAGE_COUNT
from ledger.stores.port import Entry, Opening, Position, StreamInfo, StreamKey
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.link import CommandLine
from ledger.stores.redis.refusals import refusal_of
from ledger.stores.redis.replies import entries_of, info_of


class StreamReads(RetriedCommands):
    """Streams page by page, their metadata, and their names."""

    def range_of(self, key: StreamKey, after: Position, count: int) -> CommandLine:
        return ("XRANGE", self.keys.stream(key), f"({after}", "+", "COUNT", count)

    async def open(self, key: StreamKey) -> Opening:
        stream = self.keys.stream(key)
        replies = await self.patiently(
            lambda: self._link.run(
                (("XINFO", "STREAM", stream), ("XRANGE", stream, "-", "+", "COUNT", PAGE_COUNT), ("TIME",))
            )
        )
        info, entries, time = replies
        if isinstance(entries, ResponseError):
            raise refusal_of(entries) from entries
        return Opening(info_of(info), entries_of(entries), self._observe_time(time))

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        return entries_of((await self.ask((self.range_of(key, after, count),)))[0])

    async def read_many(self, wanted: Sequence[tuple[StreamKey, Position]]) -> list[tuple[Entry, ...]]:
        if not wanted:
            return []
        replies = await self.ask([self.range_of(key, after, PAGE_COUNT) for key, after in wanted])
        return [entries_of(reply) for reply in replies]

    async def info(self, key: StreamKey) -> StreamInfo | None:
        stream = self.keys.stream(key)
        replies = await self.patiently(
            lambda: self._link.run((("XINFO", "STREAM", stream), ("MEMORY", "USAGE", stream)))
        )
        size = replies[1] if isinstance(replies[1], int) else None
        return info_of(replies[0], size)

    async def streams(self) -> AsyncIterator[StreamKey]:
        async for name in self.scan(self.keys.stream_glob(), "TYPE", "stream"):
            key = self.keys.parse_stream(name)
            if key is not None:
                yield key
