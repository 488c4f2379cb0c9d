"""Taking lines of the feeds for a consumer group, and telling what the feeds dropped before they were taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.port import FeedItem, Store


class TakenLines(NamedTuple):
    """The lines that were delivered, and the partitions whose feeds dropped lines that the group has not dealt with."""

    items: Sequence[FeedItem]
    gaps: Sequence[int]


async def take_lines(store: Store, partitions: Sequence[int], group: str, consumer: str) -> TakenLines:
    """Take the lines that are new to the group. Raises StoreError.

    The place of the group is read before the lines are taken, and the beginning of the feeds after it: whatever was
    dropped in between counts as a gap.
    """
    places = await store.admin.places(partitions, group)
    items = await store.read_feed(partitions, group, consumer, FEED_LENGTH_COUNT)
    return TakenLines(items, await store.admin.trimmed(places) if items else ())


async def take_over_lines(
    store: Store, partitions: Sequence[int], group: str, consumer: str, idle_ms: int
) -> TakenLines:
    """As `take_lines`, for lines that were delivered to another consumer so long ago and never acknowledged."""
    places = await store.admin.places(partitions, group, idle_ms)
    items = await store.claim_feed(partitions, group, consumer, idle_ms, FEED_LENGTH_COUNT)
    return TakenLines(items, await store.admin.trimmed(places))
