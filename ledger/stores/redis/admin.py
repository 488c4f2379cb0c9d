"""Administration of a ledger on a Redis or Valkey server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.admin import FilesRewritten, GroupFacts, OwedLines, PartitionFacts, RawEntry, ShortStream
from ledger.stores.port import START, Due, Entry, FeedItem, Foreign, Position, StreamKey
from ledger.stores.redis.appends import Appends
from ledger.stores.redis.deployment import deployment_secret, link_key, replace_link_key, server_facts
from ledger.stores.redis.link import Argument, CommandLine
from ledger.stores.redis.owed_feeds import owed_lines
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.redis.replies import entries_of, feed_item_of, info_of, refused_with
from ledger.stores.redis.rewrites import RedisRewrite
from ledger.stores.redis.script import Script
from ledger.stores.redis.sealing import close_file, reseal_stream, seal_stream, unseal_stream
from ledger.stores.redis.server_files import rewrite_all_files
from ledger.stores.redis.servers import Commands
from ledger.stores.redis.stream_pages import streams_page
from ledger.stores.sealed import Seal

_SETTINGS = ("appendonly", "appendfsync", "maxmemory-policy", "min-replicas-to-write", "save", "dir")

_CENSUS = ("\nbegun", "\ndone")
"""The fields of the checkpoints that hold the names of the censuses last begun and ended; no stream has such a name."""


class RedisAdmin:
    """An implementation of `ledger.stores.admin.Admin` over the connection of a store."""

    def __init__(self, store: Appends) -> None:
        self._store = store

    async def secret(self) -> bytes:
        return await deployment_secret(self._store.command)

    async def link_key(self) -> bytes:
        return await link_key(self._store.command)

    async def replace_link_key(self) -> None:
        await replace_link_key(self._store.command)

    async def note_reads(self, kind: str, lines: Sequence[bytes], count_max: int, oldest_ms: int) -> None:
        key = self._store.keys.reads(kind)
        (oldest,) = await self._store.ask([("XRANGE", key, "-", "+", "COUNT", 1)])
        is_old = bool(oldest) and Position.parse(oldest[0][0].decode()).ms < oldest_ms
        # One XADD trims by one criterion only, and the ledger's user has no right to XTRIM.
        by_count: CommandLine = ("MAXLEN", "~", count_max)
        first: CommandLine = ("MINID", "=", oldest_ms) if is_old else by_count
        bounds = [first, *[by_count] * (len(lines) - 1)]
        await self._store.ask(
            [("XADD", key, *bound, "*", "r", line) for bound, line in zip(bounds, lines, strict=True)]
        )

    async def reads(self, kind: str, since_ms: int, count: int) -> list[tuple[int, bytes]]:
        (found,) = await self._store.ask([("XREVRANGE", self._store.keys.reads(kind), "+", since_ms, "COUNT", count)])
        return [(Position.parse(entry.decode()).ms, fields[1]) for entry, fields in reversed(found)]

    async def take_turn(self, name: str, holder: str, lease_ms: int) -> bool:
        key = self._store.keys.turn(name)
        if await self._store.command("SET", key, holder, "NX", "PX", lease_ms) is not None:
            return True
        if await self._store.command("GET", key) != holder.encode():
            return False
        # If the lease ends here and another holder takes it, that lease is extended: still only one holder has it.
        return bool(await self._store.command("PEXPIRE", key, lease_ms))

    async def end_turn(self, name: str, holder: str) -> None:
        key = self._store.keys.turn(name)
        if await self._store.command("GET", key) == holder.encode():
            await self._store.command("DEL", key)

    async def turns_held(self, names: Sequence[str]) -> frozenset[str]:
        if not names:
            return frozenset()
        replies = await self._store.ask([("EXISTS", self._store.keys.turn(name)) for name in names])
        return frozenset(name for name, reply in zip(names, replies, strict=True) if reply)

    async def raw(self, key: StreamKey, after: Position, count: int) -> tuple[RawEntry, ...]:
        (lines,) = await self._store.ask_of_streams(((key, self._store.range_of(key, after, count)),))
        return tuple(_raw(line) for line in lines)

    async def short_streams(self, keys: Sequence[StreamKey], count: int) -> list[ShortStream | None]:
        commands: list[CommandLine] = []
        for key in keys:
            stream = self._store.keys.stream(key)
            # The metadata first: entries that come in between are no problem then.
            commands += [("XINFO", "STREAM", stream), ("XRANGE", stream, "-", "+", "COUNT", count)]
        replies = await self._store.ask_each(commands)
        return [_short(replies[2 * index], replies[2 * index + 1], count) for index in range(len(keys))]

    async def heads(self, keys: Sequence[StreamKey]) -> list[Position]:
        if not keys:
            return []
        replies = await self._store.ask_each(
            [("XREVRANGE", self._store.keys.stream(key), "+", "-", "COUNT", 1) for key in keys]
        )
        others = [key for key, reply in zip(keys, replies, strict=True) if refused_with(reply, "WRONGTYPE")]
        seals = dict(zip(others, await self._store.seals(others), strict=True))
        return [_head(reply, seals.get(key)) for key, reply in zip(keys, replies, strict=True)]

    async def seal(self, key: StreamKey, seal: Seal) -> bool:
        return await seal_stream(self._store, key, seal)

    async def seals(self, keys: Sequence[StreamKey]) -> list[Seal | None]:
        return await self._store.seals(keys)

    async def reseal(self, key: StreamKey, seal: Seal, to: Seal) -> bool:
        return await reseal_stream(self._store, key, seal, to)

    async def close_file(self, keys: Sequence[StreamKey], file: str) -> None:
        await close_file(self._store, keys, file)

    async def unseal(self, key: StreamKey, seal: Seal, entries: Sequence[Entry], due: Due | None) -> bool:
        return await unseal_stream(self._store, key, seal, entries, due)

    async def restore(self, key: StreamKey, after: Position, entries: Sequence[Entry], due: Due | None) -> bool:
        partition, keys = self._store.partition_of(key), self._store.keys
        score: Argument = "" if due is None else "inf" if due.ms is None else due.ms
        arguments: list[Argument] = [str(after), score, key.name, key.id, keys.channel(partition), FEED_LENGTH_COUNT]
        for entry in entries:
            arguments += [str(entry.position), entry.payload, entry.content or ""]
        names = (keys.stream(key), keys.due(partition), keys.feed(partition))
        return bool(await self._store.evaluate_on(key, Script.named("restore.lua"), names, arguments))

    def rewrite(self, key: StreamKey, versions: Sequence[int]) -> RedisRewrite:
        return RedisRewrite(self._store, key, versions)

    async def rewrite_files(self) -> list[FilesRewritten]:
        return await rewrite_all_files(self._store)

    async def places(self, partitions: Sequence[int], group: str, idle_ms: int | None = None) -> dict[int, str]:
        commands: list[CommandLine] = []
        for one in partitions:
            feed = self._store.keys.feed(one)
            commands.append(("XINFO", "GROUPS", feed))
            if idle_ms is not None:
                commands.append(("XPENDING", feed, group, "IDLE", idle_ms, "-", "+", 1))
        width = 1 if idle_ms is None else 2
        replies = await self._store.ask_each(commands)
        return {
            one: _place(group, *replies[index * width : (index + 1) * width])
            for index, one in enumerate(partitions)
            if not isinstance(replies[index * width], Refusal)
        }

    async def trimmed(self, places: Mapping[int, str]) -> list[int]:
        feeds = [self._store.keys.feed(one) for one in places]
        replies = await self._store.ask_each(
            [command for feed in feeds for command in (("XRANGE", feed, "-", "+", "COUNT", 1), ("XLEN", feed))]
        )
        return [
            one
            for index, (one, place) in enumerate(places.items())
            if _has_trimmed(place, *replies[2 * index : 2 * index + 2])
        ]

    async def uncounted(self, partitions: Sequence[int]) -> list[int]:
        replies = await self._store.ask([("HMGET", self._store.keys.census(one), *_CENSUS) for one in partitions])
        return [one for one, (begun, done) in zip(partitions, replies, strict=True) if begun is None or begun != done]

    async def begin_census(self, partitions: Sequence[int], census: str) -> None:
        await self._store.ask([("HSET", self._store.keys.census(one), _CENSUS[0], census) for one in partitions])

    async def end_census(self, partitions: Sequence[int], census: str) -> None:
        await self._store.ask([("HSET", self._store.keys.census(one), _CENSUS[1], census) for one in partitions])

    async def withdraw_census(self, partitions: Sequence[int]) -> None:
        await self._store.ask([("HDEL", self._store.keys.census(one), *_CENSUS) for one in partitions])

    async def owed(
        self, group: str, since: Mapping[int, str], count: int, partitions: Sequence[int] | None = None
    ) -> list[OwedLines]:
        return await owed_lines(self._store, group, since, count, partitions)

    async def feed_ends(self) -> list[FeedItem]:
        partitions = range(self._store.partition_count)
        replies = await self._store.ask(
            [("XREVRANGE", self._store.keys.feed(one), "+", "-", "COUNT", 1) for one in partitions]
        )
        return [feed_item_of(one, reply[0]) for one, reply in zip(partitions, replies, strict=True) if reply]

    async def streams_page(self, cursor: str, count: int) -> tuple[list[StreamKey], str]:
        return await streams_page(self._store, cursor, count)

    async def notes(self, name: str) -> Mapping[str, bytes]:
        flat = await self._store.command("HGETALL", self._store.keys.notes(name))
        return {flat[index].decode(): flat[index + 1] for index in range(0, len(flat), 2)}

    async def note(self, name: str, field: str, value: bytes) -> None:
        await self._store.command("HSET", self._store.keys.notes(name), field, value)

    async def forget_consumers(self, partitions: Sequence[int], group: str, idle_ms: int) -> None:
        await self._drop_consumers(
            partitions, group, lambda facts: int(facts["pending"]) == 0 and int(facts["idle"]) >= idle_ms
        )

    async def leave_group(self, partitions: Sequence[int], group: str, consumer: str) -> None:
        await self._drop_consumers(
            partitions, group, lambda facts: int(facts["pending"]) == 0 and facts["name"] == consumer.encode()
        )

    async def _drop_consumers(self, partitions: Sequence[int], group: str, unneeded: Any) -> None:
        feeds = [self._store.keys.feed(one) for one in partitions]
        replies = await self._store.ask_each([("XINFO", "CONSUMERS", feed, group) for feed in feeds])
        commands: list[CommandLine] = [
            ("XGROUP", "DELCONSUMER", feed, group, facts["name"])
            for feed, reply in zip(feeds, replies, strict=True)
            if not isinstance(reply, Refusal)
            for facts in map(_pairs, reply)
            if unneeded(facts)
        ]
        if commands:
            await self._store.ask_each(commands)

    async def partitions(self) -> list[PartitionFacts]:
        commands: list[CommandLine] = []
        for one in range(self._store.partition_count):
            feed = self._store.keys.feed(one)
            commands += [
                ("XLEN", feed),
                ("ZCARD", self._store.keys.due(one)),
                ("XINFO", "GROUPS", feed),
            ]
        replies = await self._store.ask_each(commands)
        for reply in replies:
            if isinstance(reply, Refusal) and "no such key" not in str(reply):
                raise refusal_of(reply) from reply
        found = []
        for one in range(self._store.partition_count):
            length, due, groups = replies[3 * one : 3 * one + 3]
            facts = [] if isinstance(groups, Refusal) else [_pairs(group) for group in groups]
            lags = await self._lags(one, facts)
            found.append(
                PartitionFacts(
                    partition=one,
                    feed_count=length,
                    due_count=due,
                    groups=tuple(_group(group, lag) for group, lag in zip(facts, lags, strict=True)),
                )
            )
        return found

    async def _lags(self, partition: int, groups: Sequence[dict[str, Any]]) -> list[int]:
        """Count the lag: the server's own figure stays wrong after lines were trimmed before a group read them."""
        feed = self._store.keys.feed(partition)
        if not groups:
            return []
        replies = await self._store.ask(
            [("XRANGE", feed, b"(" + group["last-delivered-id"], "+", "COUNT", FEED_LENGTH_COUNT) for group in groups]
        )
        return [len(reply) for reply in replies]

    async def set_back_ms(self) -> int:
        # A feed's ids are the server's own, and never run back.
        latest_ms = max((Position.parse(line.place).ms for line in await self.feed_ends()), default=0)
        time = await self._store.command("TIME")
        return max(latest_ms - int(time[0]) * 1000 - int(time[1]) // 1000, 0)

    async def check_writable(self) -> None:
        servers = await self._store.everywhere()
        partitions = range(1 if len(servers) == 1 else self._store.partition_count)
        # Refused as any write is, and without a key of that name nothing changes or goes to the file.
        await self._store.ask([("SET", self._store.keys.sure(one), "", "XX", "KEEPTTL") for one in partitions])

    async def server_facts(self) -> dict[str, str]:
        return (await self.facts_of_each_server())[0]

    async def facts_of_each_server(self) -> list[dict[str, str]]:
        return [await self._facts_of(server) for server in await self._store.everywhere()]

    async def _facts_of(self, server: Commands) -> dict[str, str]:
        async def run(*command: Argument) -> Any:
            return (await self._store.ask_at(server, (command,)))[0]

        facts = await server_facts(run)
        (reply,) = await server.run([("CONFIG", "GET", *_SETTINGS)])
        # Many hosted servers do not allow CONFIG GET; then INFO has to do.
        if not isinstance(reply, Refusal):
            facts.update({f"config_{name}": value.decode() for name, value in _pairs(reply).items()})
        return facts


def _head(reply: Any, seal: Seal | None) -> Position:
    """Return the last entry of a stream or a sealed one; what else stands under its key has none."""
    if seal is not None:
        return seal.head
    if refused_with(reply, "WRONGTYPE"):
        return START
    if isinstance(reply, Refusal):
        raise refusal_of(reply) from reply
    return Position.parse(reply[0][0].decode()) if reply else START


def _place(group: str, groups: Any, idle: Any = ()) -> str:
    """Return the place of a group in a feed; empty where it has not begun."""
    ids = [facts["last-delivered-id"] for facts in map(_pairs, groups) if facts["name"] == group.encode()]
    if not isinstance(idle, Refusal):
        ids += [line[0] for line in idle]
    return str(min((Position.parse(one.decode()) for one in ids), default=""))


def _has_trimmed(place: str, first: Any, length: Any) -> bool:
    """Return whether a feed, of which these are the first line and the length, begins after a place."""
    if not isinstance(length, int) or not first:
        return False
    return Position.parse(place) < Position.parse(first[0][0].decode()) if place else length >= FEED_LENGTH_COUNT


def _group(facts: dict[str, Any], lag_count: int) -> GroupFacts:
    return GroupFacts(
        name=facts["name"].decode(),
        consumer_count=int(facts["consumers"]),
        pel_count=int(facts["pending"]),
        lag_count=lag_count,
    )


def _short(info: Any, entries: Any, count: int) -> ShortStream | None:
    """Return a stream from its two replies if it is short, and nothing is wrong with it."""
    if isinstance(info, Refusal) or isinstance(entries, Refusal) or len(entries) >= count:
        return None
    facts = info_of(info)
    try:
        return None if facts is None else ShortStream(facts, entries_of(entries))
    except Foreign:
        return None


def _pairs(flat: Any) -> dict[str, Any]:
    return {flat[i].decode(): flat[i + 1] for i in range(0, len(flat), 2)}


def _raw(line: Any) -> RawEntry:
    entry_id, fields = line
    return RawEntry(entry_id.decode(), tuple((fields[i], fields[i + 1]) for i in range(0, len(fields), 2)))
