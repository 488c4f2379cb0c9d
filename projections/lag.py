"""The lag of views behind their streams, as the feeds tell it.

A feed names the streams of a partition with new events. What the projectors' group has dealt with is in the views, or
its stream is noted as one that cannot be read. So only the lines after that are looked at, and a line after which the
views are up to date is never looked at again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.log.viewed import checkpoints
from ledger.stores.port import Position, Store, StreamKey
from ledger.stores.values import PROJECTORS, SKIPPED, FeedFacts, OwedLines

LINES_AT_ONCE_COUNT: Final = 50
"""Lines of each partition's feed that are looked at together."""


class ViewLag(NamedTuple):
    """The entry that the views of a stream are as of, and the stream's last one."""

    at: Position
    head: Position

    @property
    def events(self) -> int:
        """Return the events that the views do not have; 0 where the stream lost events that they have."""
        return max(self.head.version - self.at.version, 0)


class FedLag:
    """The lag of all views. Keeps, for each feed, the line up to which it has found none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since: dict[int, str] = {}
        self._told: set[int] = set()
        self.trimmed: set[int] = set()
        """Partitions whose feed has dropped lines that nobody read: then only a walk over all streams finds the lag."""

    async def pages(self) -> AsyncIterator[dict[StreamKey, ViewLag]]:
        """Iterate over the streams that the feeds name and whose views lag, a bounded number at a time.

        A stream may come again, with a later page, while its views lag.
        """
        skipped = [StreamKey.parse(name) for name in await self._store.view_page(SKIPPED, "", None)]
        if skipped and (found := await streams_behind(self._store, skipped)):
            yield found
        read, lagging = dict(self._since), set[int]()
        while True:
            lines = await self._store.owed(PROJECTORS, read, LINES_AT_ONCE_COUNT)
            self._note_trimmed(lines)
            found = await streams_behind(self._store, list({item.key: None for one in lines for item in one.items}))
            lagging |= {self._store.partition_of(key) for key in found}
            for one in lines:
                read[one.partition] = one.after
                if one.partition not in lagging:
                    self._since[one.partition] = one.after
                    self._told.discard(one.partition)
            if found:
                yield found
            if all(one.complete for one in lines):
                return

    async def all(self) -> dict[StreamKey, ViewLag]:
        """Return all streams whose views lag, as far as the feeds tell."""
        found: dict[StreamKey, ViewLag] = {}
        async for page in self.pages():
            found |= page
        return found

    def _note_trimmed(self, lines: Sequence[OwedLines]) -> None:
        news = {one.partition for one in lines if one.trimmed} - self._told
        self._told |= news
        self.trimmed |= news


async def lag_counts(store: Store, feeds: Sequence[FeedFacts]) -> dict[tuple[str, int], int]:
    """Return how many lines each group was not given yet, by its name and the partition.

    They are counted: the server's own figure stays wrong after lines were trimmed before a group read them.
    """
    delivered = {(group.name, one.partition): group.delivered for one in feeds for group in one.groups}
    counts = dict.fromkeys(delivered, 0)
    for name in sorted({name for name, _ in delivered}):
        since = {partition: at for (group, partition), at in delivered.items() if group == name}
        for lines in await store.owed(name, since, FEED_LENGTH_COUNT, list(since)):
            counts[name, lines.partition] = len(lines.items)
    return counts


async def set_back_ms(store: Store) -> int:
    """Return how far the server's clock is behind the newest line of all feeds: it was set back; 0 if it was not."""
    # A feed's ids are the server's own, and never run back.
    latest_ms = [Position.parse(one.last.place).ms for one in await store.feeds() if one.last is not None]
    return max(max(latest_ms, default=0) - await store.now_ms(), 0)


async def streams_behind(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, ViewLag]:
    """Return those of the streams whose views are not as of their last entry; also where that was lost."""
    # The checkpoints first: read after the heads, they might be ahead of them.
    known = await checkpoints(store, keys)
    heads = await store.heads(keys)
    return {key: ViewLag(at, head.at) for key, at, head in zip(keys, known, heads, strict=True) if at != head.at}


async def events_behind(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, int]:
    """Return the lag of each stream's views in events, without those that have none."""
    found = await streams_behind(store, keys)
    return {key: one.events for key, one in found.items() if one.events}
