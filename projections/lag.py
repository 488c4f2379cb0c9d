"""The lag of views behind their streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final

from ledger.stores.port import START, Position, Store, StreamKey
from projections.views import HEADS

COMPARED_AT_ONCE_COUNT: Final = 500


async def streams_behind(store: Store, partitions: Collection[int] | None = None) -> AsyncIterator[list[StreamKey]]:
    """Iterate, page by page, over the streams whose views are not as of their last entry; `partitions` None means all.

    Includes streams that no longer exist while their views do.
    """
    seen: set[StreamKey] = set()
    async for keys in _pages(store, partitions):
        seen.update(keys)
        behind = await _behind(store, keys)
        if behind:
            yield behind
    gone = [key for key in await _viewed(store, partitions) if key not in seen]
    if gone and (behind := await _behind(store, gone)):
        yield behind


async def checkpoints(store: Store, keys: Sequence[StreamKey]) -> list[Position]:
    """Return the position that each stream's views are as of; 0-0 where there is none."""
    by_partition: dict[int, list[StreamKey]] = {}
    for key in keys:
        by_partition.setdefault(store.partition_of(key), []).append(key)
    found = await asyncio.gather(
        *(store.views.fields(HEADS, one, [key.name for key in some]) for one, some in by_partition.items())
    )
    known = {
        key: START if value is None else Position.parse(value.decode())
        for some, values in zip(by_partition.values(), found, strict=True)
        for key, value in zip(some, values, strict=True)
    }
    return [known[key] for key in keys]


async def events_behind(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, int]:
    """Return the lag of each stream's views in events, without those that have none."""
    known = await checkpoints(store, keys)
    heads = await store.admin.heads(keys)
    return {
        key: head.version - at.version
        for key, at, head in zip(keys, known, heads, strict=True)
        if at.version < head.version
    }


async def _behind(store: Store, keys: Sequence[StreamKey]) -> list[StreamKey]:
    # The checkpoints first: read after the heads, they might be ahead of them.
    known = await checkpoints(store, keys)
    heads = await store.admin.heads(keys)
    return [key for key, at, head in zip(keys, known, heads, strict=True) if at != head]


async def _pages(store: Store, partitions: Collection[int] | None) -> AsyncIterator[list[StreamKey]]:
    page: list[StreamKey] = []
    async for key in store.streams():
        if partitions is None or store.partition_of(key) in partitions:
            page.append(key)
        if len(page) >= COMPARED_AT_ONCE_COUNT:
            yield page
            page = []
    if page:
        yield page


async def _viewed(store: Store, partitions: Collection[int] | None) -> list[StreamKey]:
    wanted = range(store.partition_count) if partitions is None else sorted(partitions)
    found = await asyncio.gather(*(store.view(HEADS, one) for one in wanted))
    return [StreamKey.parse(name) for heads in found for name in heads]
