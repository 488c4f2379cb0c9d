"""Streams on a Redis or Valkey server, and the stubs of sealed ones: a hash of two fields under the stream's own key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ledger.core.errors import LedgerError
from ledger.core.ids import strange_cursor
from ledger.core.limits import PAGE_COUNT
from ledger.stores.port import START, Entry, Foreign, Opening, Position, ShortStream, StreamInfo, StreamKey
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.link import Argument, CommandLine, Script
from ledger.stores.redis.replies import NO_SUCH_KEY, Refusal, accepted, entries_of, info_of, refusal_of, refused_with
from ledger.stores.sealed import Seal, StreamHead, Stub, broken_stub, decode_seal, sealed_error

_FIELDS: Final = {b"seal", b"file"}
"""The fields of a stub, also in `seal.lua`, `unseal.lua` and `correct_due.lua`.

A small hash whose values have at most 64 bytes each takes the least memory.
"""

LOOKS_MAX: Final = 3
"""Reads of a key that is a stub to one command and a stream to the next, because it is brought back meanwhile."""

_PARTS_COUNT: Final = 3
_DIGITS_MAX: Final = 20


class _Cursor(NamedTuple):
    """The place in a pass over all keys: a server by its number, its run, and the cursor of its SCAN."""

    server: int = 0
    run: str = ""
    at: str = "0"

    @classmethod
    def parse(cls, text: str) -> _Cursor:
        """Raises InputError for a text that is no cursor."""
        if not text:
            return cls()
        parts = text.split("/")
        if len(parts) != _PARTS_COUNT or not all(one.isdecimal() and len(one) <= _DIGITS_MAX for one in parts[::2]):
            raise strange_cursor(text)
        return cls(int(parts[0]), parts[1], parts[2])

    def __str__(self) -> str:
        return "/".join(map(str, self))


class StreamReads(RetriedCommands):
    """Streams page by page, their metadata and names, and what a stub makes of a refused command (SealedError)."""

    async def seals(self, keys: Sequence[StreamKey]) -> list[Seal | None]:
        replies = await self.ask_each([("HGETALL", self.keys.stream(key)) for key in keys])
        return [_seal_in(key, reply) for key, reply in zip(keys, replies, strict=True)]

    async def refused_by_stub(self, key: StreamKey, refusal: Refusal) -> LedgerError | None:
        """Return the error for a refused command on a stream's key if a stub is there; None if none is."""
        if not refused_with(refusal, "WRONGTYPE"):
            return None
        (seal,) = await self.seals([key])
        return None if seal is None else sealed_error(key, seal)

    async def ask_of_streams(
        self, wanted: Sequence[tuple[StreamKey, CommandLine]], *, let_through: str | None = None
    ) -> list[Any]:
        """As `ask`, each command on a stream's key. Raises SealedError where a stub is there.

        A refusal in the words `let_through` is returned as a reply.
        """
        look = 0
        while True:
            look += 1
            replies = await self.ask_each([command for _, command in wanted])
            refusals = [
                (key, reply)
                for (key, _), reply in zip(wanted, replies, strict=True)
                if isinstance(reply, Refusal) and (let_through is None or let_through not in str(reply))
            ]
            if not refusals:
                return replies
            error = await self.refused_by_stub(*refusals[0])
            # Without a stub the stream may just have been brought back: it is read again.
            if error is not None or look == LOOKS_MAX or not refused_with(refusals[0][1], "WRONGTYPE"):
                raise error or refusal_of(refusals[0][1]) from refusals[0][1]

    async def evaluate_on(
        self, key: StreamKey, script: Script, keys: Sequence[str], arguments: Sequence[Argument]
    ) -> Any:
        """As `evaluate`, of a script on a stream. Raises SealedError where a stub is there."""
        reply = (await self.patiently(lambda: self.run_now(script, keys, arguments)))[0]
        if isinstance(reply, Refusal):
            raise await self.refused_by_stub(key, reply) or refusal_of(reply) from reply
        return reply

    def range_of(self, key: StreamKey, after: Position, count: int) -> CommandLine:
        return ("XRANGE", self.keys.stream(key), f"({after}", "+", "COUNT", count)

    async def open(self, key: StreamKey) -> Opening:
        stream = self.keys.stream(key)
        commands = (("XINFO", "STREAM", stream), ("XRANGE", stream, "-", "+", "COUNT", PAGE_COUNT), ("TIME",))
        info, entries, time = await self.ask_of_streams([(key, one) for one in commands], let_through=NO_SUCH_KEY)
        return Opening(info_of(info), entries_of(entries), self._observe_time(time))

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        return entries_of((await self.ask_of_streams(((key, self.range_of(key, after, count)),)))[0])

    async def info(self, key: StreamKey) -> StreamInfo | None:
        stream = self.keys.stream(key)
        (info,), (size,) = await asyncio.gather(
            self.ask_of_streams(((key, ("XINFO", "STREAM", stream)),), let_through=NO_SUCH_KEY),
            self.ask_each((("MEMORY", "USAGE", stream),)),
        )
        return info_of(info, size if isinstance(size, int) else None)

    async def short_streams(self, keys: Sequence[StreamKey], count: int) -> list[ShortStream | None]:
        commands: list[CommandLine] = []
        for key in keys:
            stream = self.keys.stream(key)
            # The metadata first: entries that come in between are no problem then.
            commands += [("XINFO", "STREAM", stream), ("XRANGE", stream, "-", "+", "COUNT", count)]
        replies = await self.ask_each(commands)
        return [_short(replies[2 * index], replies[2 * index + 1], count) for index in range(len(keys))]

    async def heads(self, keys: Sequence[StreamKey]) -> list[StreamHead]:
        if not keys:
            return []
        replies = await self.ask_each([("XREVRANGE", self.keys.stream(key), "+", "-", "COUNT", 1) for key in keys])
        others = [key for key, reply in zip(keys, replies, strict=True) if refused_with(reply, "WRONGTYPE")]
        seals = dict(zip(others, await self.seals(others), strict=True))
        return [_head(reply, seals.get(key)) for key, reply in zip(keys, replies, strict=True)]

    async def streams_page(self, cursor: str, count: int, *, sealed: bool = False) -> tuple[list[StreamKey], str]:
        place, servers = _Cursor.parse(cursor), await self.everywhere()
        if place.server >= len(servers):
            place = _Cursor()
        server, pattern = servers[place.server], self.keys.sealable_glob if sealed else self.keys.streams_glob
        words = ("MATCH", pattern, "COUNT", count, "TYPE", "hash" if sealed else "stream")
        info, (reply, names) = await self.ask_at(server, (("INFO", "server"), ("SCAN", place.at, *words)))
        run = _run_in(info)
        if run != place.run and place.at != "0":
            # The cursor of a SCAN holds for one run of a server.
            reply, names = await self.command_at(server, "SCAN", "0", *words)
        keys = [key for name in dict.fromkeys(names) if (key := self.keys.parse_stream(name.decode())) is not None]
        if reply != b"0":
            return keys, str(_Cursor(place.server, run, reply.decode()))
        return keys, str(_Cursor(place.server + 1)) if place.server + 1 < len(servers) else ""


def _seal_in(key: StreamKey, reply: Any) -> Seal | None:
    """Return the seal in what HGETALL replies; no hash is no seal."""
    if refused_with(reply, "WRONGTYPE"):
        return None
    if not accepted(reply):
        return None
    fields = dict(zip(reply[::2], reply[1::2], strict=True))
    if fields.keys() != _FIELDS:
        raise broken_stub(key, "it has other fields than `seal` and `file`")
    return decode_seal(key, Stub(fields[b"seal"], fields[b"file"]))


def _short(info: Any, entries: Any, count: int) -> ShortStream | None:
    """Return a stream from its two replies if it is short, and nothing is wrong with it."""
    if isinstance(info, Refusal) or isinstance(entries, Refusal) or len(entries) >= count:
        return None
    facts = info_of(info)
    try:
        return None if facts is None else ShortStream(facts, entries_of(entries))
    except Foreign:
        return None


def _head(reply: Any, seal: Seal | None) -> StreamHead:
    """Return the last entry of a stream or a sealed one; what else stands under its key has none."""
    if seal is not None or refused_with(reply, "WRONGTYPE"):
        return StreamHead(START if seal is None else seal.head, seal)
    return StreamHead(Position.parse(reply[0][0].decode()) if accepted(reply) else START)


def _run_in(info: bytes) -> str:
    for line in info.decode(errors="replace").splitlines():
        if line.startswith("run_id:"):
            return line.partition(":")[2]
    return ""
