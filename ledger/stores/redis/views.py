"""Views on a Redis or Valkey server."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from ledger.stores.admin import FoundFields, WantedFields
from ledger.stores.checkpoints import checkpoint_in
from ledger.stores.port import Position, StreamKey, ViewAdvance, ViewWrite
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.link import Argument, CommandLine
from ledger.stores.redis.lookups import lex_range, look_up
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.redis.replies import refused_with
from ledger.stores.redis.script import Script

_PROJECT = Script.named("project.lua")

PAGE_SHARE_MIN: Final = 2
"""The least number of fields that each partition is asked for first, for a page of all partitions."""


class Projections(RetriedCommands):
    """Views and checkpoints, changed together."""

    async def project(self, key: StreamKey, expected: Position, at: Position, writes: Sequence[ViewWrite]) -> bool:
        return await self.project_all((ViewAdvance(key, expected, at),), writes)

    async def project_all(self, advances: Sequence[ViewAdvance], writes: Sequence[ViewWrite]) -> bool:
        partition = self.partition_of(advances[0].key)
        groups = _in_groups(writes)
        views = {view: index for index, view in enumerate(dict.fromkeys(view for view, _, _ in groups), 2)}
        keys = [self.keys.checkpoints(partition), *(self.keys.view(view, partition) for view in views)]
        sent: list[Argument] = [len(advances)]
        for key, expected, at in advances:
            sent += (key.name, str(expected), str(at))
        for view, command, arguments in groups:
            sent += (views[view], command, len(arguments), *arguments)
        return bool(await self.evaluate(_PROJECT, keys, sent))

    async def checkpoint(self, key: StreamKey) -> Position:
        return checkpoint_in(await self.command("HGET", self.keys.checkpoints(self.partition_of(key)), key.name))

    async def view(self, view: str, partition: int) -> Mapping[str, bytes]:
        key = self.keys.view(view, partition)
        flat = _fitting(*await self.ask_each((("HGETALL", key), ("ZRANGE", key, 0, -1, "WITHSCORES"))))
        return {flat[i].decode(): flat[i + 1] for i in range(0, len(flat), 2)}

    async def view_field(self, view: str, partition: int, field: str) -> bytes | None:
        key = self.keys.view(view, partition)
        value: bytes | None = _fitting(*await self.ask_each((("HGET", key, field), ("ZSCORE", key, field))))
        return value

    async def drop_views(self, partition: int, names: Sequence[str] | None = None) -> None:
        keys = {self.keys.census(partition), self.keys.checkpoints(partition)}
        keys.update(self.keys.view(name, partition) for name in names or ())
        if names is None:
            keys.update([key async for key in self.scan(self.keys.view_glob(partition))])
        # One command, hence atomic: a projector that starts again meanwhile finds all keys or none.
        await self.command("UNLINK", *sorted(keys))


class RedisViews:
    """An implementation of `ledger.stores.admin.ViewReader` over the connection of a store."""

    def __init__(self, store: RetriedCommands) -> None:
        self._store = store

    async def read(self, partition: int, names: Sequence[str]) -> dict[str, Mapping[str, bytes]]:
        keys = [self._store.keys.view(name, partition) for name in names]
        # Only the key's type shows the kind of a view: each is read in both ways, and the fitting reply is kept.
        commands: list[CommandLine] = [("MULTI",)]
        for key in keys:
            commands += [("HGETALL", key), ("ZRANGE", key, 0, -1, "WITHSCORES")]
        # Commands of one call are consecutive on the connection, so no other caller's enter the transaction.
        replies = (await self._store.ask((*commands, ("EXEC",))))[-1]
        found: dict[str, Mapping[str, bytes]] = {}
        for index, name in enumerate(names):
            flat = _fitting(replies[2 * index], replies[2 * index + 1])
            found[name] = {flat[i].decode(): flat[i + 1] for i in range(0, len(flat), 2)}
        return found

    async def fields(self, view: str, partition: int, fields: Sequence[str]) -> list[bytes | None]:
        if not fields:
            return []
        values: list[bytes | None] = await self._store.command("HMGET", self._store.keys.view(view, partition), *fields)
        return values

    async def fields_of_each(self, wanted: Sequence[WantedFields]) -> list[list[bytes | None]]:
        name = self._store.keys.view
        return await self._store.ask([("HMGET", name(view, partition), *fields) for view, partition, fields in wanted])

    async def names(self, view: str, partition: int) -> list[str]:
        # HKEYS would do, and is one more right for every user of a server.
        reply = await self._store.command("HGETALL", self._store.keys.view(view, partition))
        return [name.decode() for name in reply[::2]]

    async def page(self, view: str, prefix: str, count: int, after: str = "", *, backwards: bool = False) -> list[str]:
        first, last = lex_range(prefix)
        limits = (last, first) if backwards else (first, last)
        begin = b"(" + after.encode() if after and after.startswith(prefix) else limits[0]
        keys = self._store.keys
        begins = {keys.view(view, one): begin for one in range(self._store.partition_count)}
        order = ("BYLEX", "REV") if backwards else ("BYLEX",)
        nearest = heapq.nlargest if backwards else heapq.nsmallest
        found: list[bytes] = []
        # A few of each set are mostly enough; only where the last of them is on the page, more are read.
        share = min(count, PAGE_SHARE_MIN + 2 * count // len(begins))
        while begins and count:
            replies = await self._store.ask(
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

    async def starting(self, view: str, prefix: str) -> list[str]:
        first, last = lex_range(prefix)
        replies = await self._store.ask(
            [
                ("ZRANGE", self._store.keys.view(view, one), first, last, "BYLEX")
                for one in range(self._store.partition_count)
            ]
        )
        return sorted(field.decode() for reply in replies for field in reply)

    async def look_up(self, view: str | None, prefix: str = "", count: int = 0) -> FoundFields:
        return await look_up(self._store, view, prefix, count)

    async def counts(self, view: str) -> list[dict[str, int]]:
        replies = await self._store.ask(
            [("HGETALL", self._store.keys.view(view, one)) for one in range(self._store.partition_count)]
        )
        return [
            {reply[index].decode(): int(reply[index + 1]) for index in range(0, len(reply), 2)} for reply in replies
        ]

    async def survey(self) -> Mapping[int, Sequence[str]]:
        names: dict[int, set[str]] = {}
        async for key in self._store.scan(self._store.keys.any_view_glob()):
            if (parsed := self._store.keys.parse_view(key)) is not None:
                names.setdefault(parsed[0], set()).add(parsed[1])
        return {partition: sorted(found) for partition, found in names.items()}


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
    reply = of_sorted if refused_with(of_hash, "WRONGTYPE") else of_hash
    if isinstance(reply, Refusal):
        raise refusal_of(reply) from reply
    return reply
