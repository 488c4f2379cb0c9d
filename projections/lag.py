"""The lag of views behind their streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

from ledger.log.viewed import ahead_among, checkpoints, pages_of_streams
from ledger.stores.port import Store, StreamKey
from projections.views import HEADS


async def streams_behind(store: Store, partitions: Collection[int] | None = None) -> AsyncIterator[list[StreamKey]]:
    """Iterate, page by page, over the streams whose views are not as of their last entry; `partitions` None means all.

    Includes streams that no longer exist while their views do.
    """
    seen: set[StreamKey] = set()
    async for keys in pages_of_streams(store, partitions):
        seen.update(keys)
        behind = await ahead_among(store, keys)
        if behind:
            yield behind
    gone = [key for key in await _viewed(store, partitions) if key not in seen]
    if gone and (behind := await ahead_among(store, gone)):
        yield behind


async def events_behind(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, int]:
    """Return the lag of each stream's views in events, without those that have none."""
    known = await checkpoints(store, keys)
    heads = await store.admin.heads(keys)
    return {
        key: head.version - at.version
        for key, at, head in zip(keys, known, heads, strict=True)
        if at.version < head.version
    }


async def _viewed(store: Store, partitions: Collection[int] | None) -> list[StreamKey]:
    wanted = range(store.partition_count) if partitions is None else sorted(partitions)
    found = await asyncio.gather(*(store.view(HEADS, one) for one in wanted))
    return [StreamKey.parse(name) for heads in found for name in heads]
