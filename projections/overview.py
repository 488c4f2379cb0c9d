"""Content of each partition, from the views' counts and what the feeds tell beyond them; no stream is read."""

from __future__ import annotations

from collections import Counter

import msgspec

from ledger.stores.port import START, Store, StreamKey
from projections.lag import FedLag, ViewLag
from projections.queries import PartitionCounts, counts_of_partitions


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The streams and events of each partition, and the streams whose views lag.

    `trimmed`: a feed has dropped lines that nobody read, so there may be more of all than is told. `viewed`: the
    streams that have views.
    """

    partitions: list[PartitionCounts]
    behind: dict[StreamKey, ViewLag]
    behind_events: Counter[int]
    """Events that no view has, by partition."""
    trimmed: bool
    viewed: int

    @property
    def streams(self) -> int:
        return sum(one.streams for one in self.partitions)


async def overview(store: Store) -> Overview:
    """Return the contents of all partitions in brief. What is written meanwhile may be counted or not."""
    fed = FedLag(store)
    behind = await fed.all()
    counts = await counts_of_partitions(store)
    new_streams: Counter[int] = Counter()
    events: Counter[int] = Counter()
    for key, one in behind.items():
        new_streams[store.partition_of(key)] += one.at == START
        events[store.partition_of(key)] += one.events
    return Overview(
        partitions=[
            PartitionCounts(one.streams + new_streams[number], one.events + events[number])
            for number, one in enumerate(counts)
        ],
        behind=behind,
        behind_events=events,
        trimmed=bool(fed.trimmed),
        viewed=sum(one.streams for one in counts),
    )
