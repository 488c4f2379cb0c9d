"""Feeds on a Redis or Valkey server: read by consumer groups, and without taking lines from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.port import START, FeedFacts, FeedItem, FeedLines, GroupFacts, Position, TakenLines
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.link import CommandLine
from ledger.stores.redis.replies import NO_SUCH_KEY, Refusal, feed_item_of, pairs_of, refusal_of, refused_with

_SEQUENCE_MAX: Final = 2**64 - 1


class _Wanted(msgspec.Struct, frozen=True):
    """The lines to read of a feed: those after `start`, up to `last` as far as was known."""

    partition: int
    start: Position
    last: Position
    trimmed: bool


class Feeds(RetriedCommands):
    """The feeds of the partitions. A partition without appends has none yet."""

    async def read_feed(
        self, partitions: Sequence[int], group: str, consumer: str, count: int, idle_ms: int | None = None
    ) -> TakenLines:
        # Once lines are delivered nothing shows any more that others were dropped before them. So the place of the group
        # is read before lines are taken, and the beginning of the feeds after it.
        places = await self._places(partitions, group, idle_ms)
        idle = [one for one, (_, is_idle) in places.items() if is_idle]
        claimed, dropped = await self._claimed(idle, group, consumer, count, idle_ms or 0)
        items = [*claimed, *await self._new_lines(partitions, group, consumer, count)]
        taken = {item.partition for item in items}
        looked_at = {one: at for one, (at, is_idle) in places.items() if is_idle or one in taken}
        return TakenLines(items, sorted({*await self._trimmed(looked_at), *dropped}), len(claimed))

    async def _places(
        self, partitions: Sequence[int], group: str, idle_ms: int | None
    ) -> dict[int, tuple[Position | None, bool]]:
        """Return the last line of each feed that the group was given; with `idle_ms`, an earlier one that is so idle.

        None is a group that has not begun; and whether there is an idle line.
        """
        commands: list[CommandLine] = [("XINFO", "GROUPS", self.keys.feed(one)) for one in partitions]
        if idle_ms is not None:
            commands += [("XPENDING", self.keys.feed(one), group, "IDLE", idle_ms, "-", "+", 1) for one in partitions]
        replies = await self.ask_each(commands)
        found = {}
        for index, one in enumerate(partitions):
            groups = replies[index]
            if isinstance(groups, Refusal):
                continue
            idle = () if idle_ms is None else replies[len(partitions) + index]
            waiting = [] if isinstance(idle, Refusal) else [line[0] for line in idle]
            given = [facts["last-delivered-id"] for facts in map(pairs_of, groups) if facts["name"] == group.encode()]
            found[one] = min(map(_position, (*given, *waiting)), default=None), bool(waiting)
        return found

    async def _trimmed(self, places: Mapping[int, Position | None]) -> list[int]:
        """Return the partitions whose feed begins after these places; without a place, those whose feed is full."""
        feeds = [self.keys.feed(one) for one in places]
        firsts = await self.ask_each([("XRANGE", feed, "-", "+", "COUNT", 1) for feed in feeds])
        lengths = await self.ask_each([("XLEN", feed) for feed in feeds if None in places.values()])
        found = []
        for index, (one, place) in enumerate(places.items()):
            first = firsts[index]
            if place is None:
                if isinstance(lengths[index], int) and lengths[index] >= FEED_LENGTH_COUNT:
                    found.append(one)
            elif first and not isinstance(first, Refusal) and place < _position(first[0][0]):
                found.append(one)
        return found

    async def _claimed(
        self, partitions: Sequence[int], group: str, consumer: str, count: int, idle_ms: int
    ) -> tuple[list[FeedItem], list[int]]:
        """Take over idle lines. Partitions come second whose group lost lines meanwhile, idle or not: the feed had lost them."""
        replies = await self.ask_each(
            [("XAUTOCLAIM", self.keys.feed(one), group, consumer, idle_ms, "0", "COUNT", count) for one in partitions]
        )
        told = [(one, reply) for one, reply in zip(partitions, replies, strict=True) if not isinstance(reply, Refusal)]
        lines = [feed_item_of(one, line) for one, reply in told for line in reply[1] if line is not None and line[1]]
        return lines, [one for one, reply in told if reply[2]]

    async def _new_lines(self, partitions: Sequence[int], group: str, consumer: str, count: int) -> list[FeedItem]:
        replies = await self.ask_each(
            [
                ("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "STREAMS", self.keys.feed(one), ">")
                for one in partitions
            ]
        )
        without = [one for one, reply in zip(partitions, replies, strict=True) if refused_with(reply, "NOGROUP")]
        items = [
            feed_item_of(one, line)
            for one, reply in zip(partitions, replies, strict=True)
            if reply and not isinstance(reply, Refusal)
            for line in reply[0][1]
        ]
        begun = await self._begin_groups(without, group)
        return items + (await self._new_lines(begun, group, consumer, count) if begun else [])

    async def _begin_groups(self, partitions: Sequence[int], group: str) -> list[int]:
        """Create the consumer group on feeds that lack it; most partitions have no feed yet."""
        if not partitions:
            return []
        replies = await self.ask_each([("XGROUP", "CREATE", self.keys.feed(one), group, "0") for one in partitions])
        return [
            one
            for one, reply in zip(partitions, replies, strict=True)
            if not isinstance(reply, Refusal) or refused_with(reply, "BUSYGROUP")
        ]

    async def acknowledge(self, group: str, items: Sequence[FeedItem]) -> None:
        by_partition: dict[int, list[str]] = {}
        for item in items:
            partition, _, entry_id = item.item_id.partition("/")
            by_partition.setdefault(int(partition), []).append(entry_id)
        if by_partition:
            await self.ask([("XACK", self.keys.feed(one), group, *ids) for one, ids in by_partition.items()])

    async def unacknowledged(
        self, group: str, since: Mapping[int, str], count: int, partitions: Sequence[int] | None = None
    ) -> list[FeedLines]:
        # Most feeds owe nothing, which one command of each tells.
        feeds = {
            one: self.keys.feed(one) for one in (range(self.partition_count) if partitions is None else partitions)
        }
        infos = await self.ask_each([("XINFO", "STREAM", feed, "FULL", "COUNT", 1) for feed in feeds.values()])
        wanted = [_wanted(one, reply, group, since.get(one)) for one, reply in zip(feeds, infos, strict=True)]
        some = [one for one in wanted if one is not None]
        replies = await self.ask(
            [("XRANGE", feeds[one.partition], f"({one.start}", "+", "COUNT", count) for one in some]
        )
        return [_lines(one, reply, count) for one, reply in zip(some, replies, strict=True) if reply]

    async def feeds(self) -> list[FeedFacts]:
        commands: list[CommandLine] = []
        for one in range(self.partition_count):
            commands += [("XINFO", what, self.keys.feed(one)) for what in ("STREAM", "GROUPS")]
        replies = await self.ask_each(commands)
        for reply in replies:
            if isinstance(reply, Refusal) and NO_SUCH_KEY not in str(reply):
                raise refusal_of(reply) from reply
        return [_facts(one, *replies[2 * one : 2 * one + 2]) for one in range(self.partition_count)]

    async def drop_consumers(self, group: str, idle_ms: int, consumer: str | None = None) -> None:
        feeds = [self.keys.feed(one) for one in range(self.partition_count)]
        replies = await self.ask_each([("XINFO", "CONSUMERS", feed, group) for feed in feeds])
        commands: list[CommandLine] = [
            ("XGROUP", "DELCONSUMER", feed, group, facts["name"])
            for feed, reply in zip(feeds, replies, strict=True)
            if not isinstance(reply, Refusal)
            for facts in map(pairs_of, reply)
            if int(facts["pending"]) == 0 and int(facts["idle"]) >= idle_ms
            if consumer is None or facts["name"] == consumer.encode()
        ]
        await self.ask_each(commands)


def _facts(partition: int, stream: Any, groups: Any) -> FeedFacts:
    facts = {} if isinstance(stream, Refusal) else pairs_of(stream)
    last = facts.get("last-entry")
    return FeedFacts(
        partition=partition,
        last=feed_item_of(partition, last) if last else None,
        feed_count=facts.get("length", 0),
        groups=tuple(
            GroupFacts(
                name=facts["name"].decode(),
                consumer_count=int(facts["consumers"]),
                pel_count=int(facts["pending"]),
                delivered=facts["last-delivered-id"].decode(),
            )
            for facts in map(pairs_of, () if isinstance(groups, Refusal) else groups)
        ),
    )


def _wanted(partition: int, reply: Any, group: str, since: str | None) -> _Wanted | None:
    if isinstance(reply, Refusal):
        if NO_SUCH_KEY in str(reply):
            return None
        raise refusal_of(reply) from reply
    facts = pairs_of(reply)
    last = _position(facts["last-generated-id"])
    start = max(_dealt_with(facts["groups"], group), START if since is None else Position.parse(since))
    if start >= last or not facts["entries"]:
        return None
    first = _position(facts["entries"][0][0])
    lost = int(facts["entries-added"]) > int(facts["length"])
    return _Wanted(partition, start, last, trimmed=lost and _after(start) < first)


def _dealt_with(groups: Any, group: str) -> Position:
    """Return the last line up to which the group has acknowledged all; 0-0 without such a group."""
    for facts in map(pairs_of, groups):
        if facts["name"] == group.encode():
            # Named `pel` by old servers: the first line that was delivered and not acknowledged.
            waiting = facts.get("pending") or facts.get("pel")
            return _before(_position(waiting[0][0])) if waiting else _position(facts["last-delivered-id"])
    return START


def _lines(wanted: _Wanted, reply: Any, count: int) -> FeedLines:
    items = tuple(feed_item_of(wanted.partition, line) for line in reply)
    after = _position(reply[-1][0])
    complete = len(items) < count or after >= wanted.last
    return FeedLines(wanted.partition, items, str(after), wanted.trimmed, complete)


def _before(line: Position) -> Position:
    return Position(line.ms, line.version - 1) if line.version else Position(line.ms - 1, _SEQUENCE_MAX)


def _after(line: Position) -> Position:
    return Position(line.ms, line.version + 1)


def _position(entry_id: bytes) -> Position:
    return Position.parse(entry_id.decode())
