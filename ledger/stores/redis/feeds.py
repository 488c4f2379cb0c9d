"""Feeds on a Redis or Valkey server, read by consumer groups."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.stores.port import FeedItem
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.refusals import Refusal
from ledger.stores.redis.replies import feed_item_of, refused_with


class Feeds(RetriedCommands):
    """The feeds of the partitions. A partition without appends has none yet."""

    async def read_feed(self, partitions: Sequence[int], group: str, consumer: str, count: int) -> list[FeedItem]:
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
        return items + (await self.read_feed(begun, group, consumer, count) if begun else [])

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

    async def claim_feed(
        self, partitions: Sequence[int], group: str, consumer: str, idle_ms: int, count: int
    ) -> list[FeedItem]:
        replies = await self.ask_each(
            [("XAUTOCLAIM", self.keys.feed(one), group, consumer, idle_ms, "0", "COUNT", count) for one in partitions]
        )
        return [
            feed_item_of(one, line)
            for one, reply in zip(partitions, replies, strict=True)
            if not isinstance(reply, Refusal)
            for line in reply[1]
            if line is not None and line[1]
        ]

    async def acknowledge(self, group: str, items: Sequence[FeedItem]) -> None:
        by_partition: dict[int, list[str]] = {}
        for item in items:
            partition, _, entry_id = item.item_id.partition("/")
            by_partition.setdefault(int(partition), []).append(entry_id)
        if by_partition:
            await self.ask([("XACK", self.keys.feed(one), group, *ids) for one, ids in by_partition.items()])
