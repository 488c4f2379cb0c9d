"""Lines of the feeds that a consumer group may not have dealt with, read without taking them from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.stores.admin import OwedLines
from ledger.stores.port import START, Position
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.link import CommandLine
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.redis.replies import feed_item_of

_SEQUENCE_MAX: Final = 2**64 - 1


class _Wanted(msgspec.Struct, frozen=True):
    """The lines to read of a feed: those after `start`, up to `last` as far as was known."""

    partition: int
    start: Position
    last: Position
    trimmed: bool


async def owed_lines(
    store: RetriedCommands, group: str, since: Mapping[int, str], count: int, of: Sequence[int] | None = None
) -> list[OwedLines]:
    """See `ledger.stores.admin.Admin.owed`. Most feeds owe nothing, which one command of each tells."""
    partitions = range(store.partition_count) if of is None else of
    feeds = {one: store.keys.feed(one) for one in partitions}
    told = await store.ask_each([("XINFO", "STREAM", feed, "FULL", "COUNT", 1) for feed in feeds.values()])
    wanted = [_wanted(one, reply, group, since.get(one)) for one, reply in zip(partitions, told, strict=True)]
    some = [one for one in wanted if one is not None]
    commands: list[CommandLine] = [
        ("XRANGE", feeds[one.partition], f"({one.start}", "+", "COUNT", count) for one in some
    ]
    replies = await store.ask(commands)
    return [_lines(one, reply, count) for one, reply in zip(some, replies, strict=True) if reply]


def _wanted(partition: int, reply: Any, group: str, since: str | None) -> _Wanted | None:
    if isinstance(reply, Refusal):
        if "no such key" in str(reply):
            return None
        raise refusal_of(reply) from reply
    facts = _pairs(reply)
    last = _position(facts["last-generated-id"])
    start = max(_dealt_with(facts["groups"], group), START if since is None else Position.parse(since))
    if start >= last or not facts["entries"]:
        return None
    first = _position(facts["entries"][0][0])
    lost = int(facts["entries-added"]) > int(facts["length"])
    return _Wanted(partition, start, last, trimmed=lost and _after(start) < first)


def _dealt_with(groups: Any, group: str) -> Position:
    """Return the last line up to which the group has acknowledged all; 0-0 without such a group."""
    for facts in map(_pairs, groups):
        if facts["name"] == group.encode():
            # Named `pel` by old servers: the first line that was delivered and not acknowledged.
            waiting = facts.get("pending") or facts.get("pel")
            return _before(_position(waiting[0][0])) if waiting else _position(facts["last-delivered-id"])
    return START


def _lines(wanted: _Wanted, reply: Any, count: int) -> OwedLines:
    items = tuple(feed_item_of(wanted.partition, line) for line in reply)
    after = _position(reply[-1][0])
    complete = len(items) < count or after >= wanted.last
    return OwedLines(wanted.partition, items, str(after), wanted.trimmed, complete)


def _before(line: Position) -> Position:
    return Position(line.ms, line.version - 1) if line.version else Position(line.ms - 1, _SEQUENCE_MAX)


def _after(line: Position) -> Position:
    return Position(line.ms, line.version + 1)


def _position(entry_id: bytes) -> Position:
    return Position.parse(entry_id.decode())


def _pairs(flat: Any) -> dict[str, Any]:
    return {flat[index].decode(): flat[index + 1] for index in range(0, len(flat), 2)}
