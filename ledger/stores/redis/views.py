"""Views on a Redis or Valkey server."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.keys import CENSUS, PROJECTORS
from ledger.stores.port import CHECKPOINTS_VIEW, SKIPPED, FoundFields, StreamKey, ViewAdvance, ViewWrite, WantedFields
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.link import Argument, CommandLine, Script
from ledger.stores.redis.replies import Refusal, accepted, pairs_of, refusal_of, refused_with

_PROJECT: Final = Script.named("project.lua")
_LOOK_UP: Final = Script.named("look_up.lua")

_SURE: Final = 1
_UNSURE_AND_READ: Final = 2
"""The answer of `look_up.lua` about a partition; 0 is one that is incomplete, whose feed no projector has read."""

PAGE_SHARE_MIN: Final = 2
"""The least number of fields that each partition is asked for first, for a page of all partitions."""


class Views(RetriedCommands):
    """Views and checkpoints, changed together, and read."""

    async def project(self, partition: int, advances: Sequence[ViewAdvance], writes: Sequence[ViewWrite]) -> bool:
        groups = _in_groups(writes)
        views = {view: index for index, view in enumerate(dict.fromkeys(view for view, _, _ in groups), 2)}
        keys = [self.keys.view(CHECKPOINTS_VIEW, partition), *(self.keys.view(view, partition) for view in views)]
        sent: list[Argument] = [len(advances)]
        for key, expected, at in advances:
            sent += (key.name, str(expected), str(at))
        for view, command, arguments in groups:
            sent += (views[view], command, len(arguments), *arguments)
        return bool(await self.evaluate(_PROJECT, keys, sent))

    async def drop_views(self, partition: int, names: Sequence[str]) -> None:
        keys = {self.keys.view(name, partition) for name in (CENSUS, CHECKPOINTS_VIEW, *names)}
        # One command, hence atomic: a projector that starts again meanwhile finds all keys or none.
        await self.command("UNLINK", *sorted(keys))

    async def views(self) -> Mapping[int, Sequence[str]]:
        names: dict[int, set[str]] = {}
        async for key in self.scan(self.keys.views_glob):
            if (parsed := self.keys.parse_view(key)) is not None:
                names.setdefault(parsed[0], set()).add(parsed[1])
        return {partition: sorted(found) for partition, found in names.items()}

    async def read_views(self, partition: int, names: Sequence[str]) -> dict[str, Mapping[str, bytes]]:
        keys = [self.keys.view(name, partition) for name in names]
        if len(keys) == 1:
            (read,) = await self._fitting([(("HGETALL", keys[0]), [("ZRANGE", keys[0], 0, -1, "WITHSCORES")])])
            return {names[0]: pairs_of(read if type(read) is not tuple else read[0])}
        # Only the key's type shows the kind of a view: each is read in both ways, and the fitting reply is kept.
        commands: list[CommandLine] = [("MULTI",)]
        for key in keys:
            commands += [("HGETALL", key), ("ZRANGE", key, 0, -1, "WITHSCORES")]
        # Commands of one call are consecutive on the connection, so no other caller's enter the transaction.
        replies = (await self.ask((*commands, ("EXEC",))))[-1]
        found: dict[str, Mapping[str, bytes]] = {}
        for index, name in enumerate(names):
            flat = _fitting(replies[2 * index], replies[2 * index + 1])
            found[name] = pairs_of(flat)
        return found

    async def view_fields(self, wanted: Sequence[WantedFields]) -> list[list[bytes | None]]:
        reads: list[tuple[CommandLine, list[CommandLine]]] = []
        for view, partition, fields in wanted:
            key = self.keys.view(view, partition)
            reads.append((("HMGET", key, *fields), [("ZSCORE", key, field) for field in fields]))
        return [list(one) for one in await self._fitting(reads)]

    async def _fitting(self, reads: Sequence[tuple[CommandLine, Sequence[CommandLine]]]) -> list[Any]:
        """Return the replies to commands on hashes; of a key that is a sorted set those to the others, as a tuple."""
        replies = await self.ask_each([of_hash for of_hash, _ in reads])
        for index, reply in enumerate(replies):
            if refused_with(reply, "WRONGTYPE"):
                replies[index] = tuple(await self.ask(reads[index][1]))
            elif isinstance(reply, Refusal):
                raise refusal_of(reply) from reply
        return replies

    async def view_page(
        self, view: str, prefix: str, count: int | None, after: str = "", *, backwards: bool = False
    ) -> list[str]:
        first, last = _lex_range(prefix)
        limits = (last, first) if backwards else (first, last)
        begin = b"(" + after.encode() if after and after.startswith(prefix) else limits[0]
        keys = self.keys
        begins = {keys.view(view, one): begin for one in range(self.partition_count)}
        order = ("BYLEX", "REV") if backwards else ("BYLEX",)
        nearest = heapq.nlargest if backwards else heapq.nsmallest
        found: list[bytes] = []
        if count is None:
            replies = await self.ask([("ZRANGE", key, begin, limits[1], *order) for key in begins])
            return [field.decode() for field in sorted(chain.from_iterable(replies), reverse=backwards)]
        # A few of each set are mostly enough; only where the last of them is on the page, more are read.
        share = min(count, PAGE_SHARE_MIN + 2 * count // len(begins))
        while begins and share:
            replies = await self.ask(
                [("ZRANGE", key, begin, limits[1], *order, "LIMIT", 0, share) for key, begin in begins.items()]
            )
            found = nearest(count, (*found, *chain.from_iterable(replies)))
            begins = {
                key: b"(" + reply[-1]
                for key, reply in zip(begins, replies, strict=True)
                if len(reply) == share and (len(found) < count or _is_before(reply[-1], found[-1], backwards=backwards))
            }
            share = min(count, 4 * share)
        return [field.decode() for field in found]

    async def look_up(self, view: str | None, prefix: str = "", count: int = 0) -> FoundFields:
        keys = self.keys
        arguments = (PROJECTORS, FEED_LENGTH_COUNT, *(() if view is None else (*_lex_range(prefix), count)))
        partitions = range(self.partition_count)
        named = [[keys.view(name, one) for one in partitions] for name in (CENSUS, SKIPPED, view) if name]
        begin = ("EVALSHA", _LOOK_UP.sha, 1 + len(named))
        calls = [
            (*begin, keys.feed(one), *of_views, *arguments) for one, *of_views in zip(partitions, *named, strict=True)
        ]
        replies = await self.evaluate_each(_LOOK_UP, calls)
        for reply in replies:
            if isinstance(reply, Refusal):
                raise refusal_of(reply) from reply
        return FoundFields(
            fields=sorted(field.decode() for reply in replies for field in reply[1])[:count],
            unprojected=[StreamKey.parse(name.decode()) for reply in replies for name in reply[2]],
            incomplete=[one for one, reply in enumerate(replies) if reply[0] != _SURE],
            read=[one for one, reply in enumerate(replies) if reply[0] == _UNSURE_AND_READ],
        )


_Group: TypeAlias = tuple[str, str, list[Argument]]
"""A view, a command, and the arguments of all its changes."""


def _in_groups(writes: Sequence[ViewWrite]) -> list[_Group]:
    """Return writes as few commands, so that two of one field are still made in their order."""
    groups: list[_Group] = []
    open_groups: dict[tuple[str, str], list[Argument]] = {}
    places: set[tuple[str, str]] = set()
    for write in writes:
        place = (write.view, write.field)
        if place in places:
            open_groups.clear()
            places.clear()
        places.add(place)
        command, arguments = _written(write)
        group = open_groups.get((write.view, command))
        if group is None:
            group = open_groups[write.view, command] = []
            groups.append((write.view, command, group))
        group += arguments
    return groups


def _written(write: ViewWrite) -> tuple[str, tuple[Argument, ...]]:
    """Return the command of a change (`latest` is the script's own), and its arguments after the key."""
    if write.kind == "count":
        assert write.value is not None
        return "HINCRBY", (write.field, write.value)
    if write.value is None:
        return ("ZREM" if write.kind == "sorted" else "HDEL"), (write.field,)
    if write.kind == "sorted":
        return "ZADD", (write.value, write.field)
    return ("latest" if write.kind == "latest" else "HSET"), (write.field, write.value)


def _is_before(one: bytes, other: bytes, *, backwards: bool) -> bool:
    return one > other if backwards else one < other


def _fitting(of_hash: Any, of_sorted: Any) -> Any:
    """Return the reply of the read that fits the type of a view's key."""
    return accepted(of_sorted if refused_with(of_hash, "WRONGTYPE") else of_hash)


def _lex_range(prefix: str) -> tuple[bytes, bytes]:
    """Return the bounds of the fields with a prefix, as ZRANGE BYLEX takes them."""
    return b"[" + prefix.encode(), b"(" + prefix.encode() + b"\xff"
