"""The lag of views behind their streams, as the feeds tell it.

A feed names the streams of a partition with new events. What the projectors' group has dealt with is in the views, or
its stream is noted as one that cannot be read. So only the lines after that are looked at, and a line after which the
views are up to date is never looked at again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from ledger.log.viewed import checkpoints
from ledger.stores.admin import PROJECTORS, SKIPPED, OwedLines
from ledger.stores.port import Position, Store, StreamKey

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
        skipped = [StreamKey.parse(name) for name in await self._store.views.starting(SKIPPED, "")]
        if skipped and (found := await streams_behind(self._store, skipped)):
            yield found
        read, lagging = dict(self._since), set[int]()
        while True:
            lines = await self._store.admin.owed(PROJECTORS, read, LINES_AT_ONCE_COUNT)
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


async def streams_behind(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, ViewLag]:
    """Return those of the streams whose views are not as of their last entry; also where that was lost."""
    # The checkpoints first: read after the heads, they might be ahead of them.
    known = await checkpoints(store, keys)
    heads = await store.admin.heads(keys)
    return {key: ViewLag(at, head) for key, at, head in zip(keys, known, heads, strict=True) if at != head}


async def events_behind(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, int]:
    """Return the lag of each stream's views in events, without those that have none."""
    found = await streams_behind(store, keys)
    return {key: one.events for key, one in found.items() if one.events}
