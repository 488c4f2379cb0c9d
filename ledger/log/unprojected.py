"""The streams that may have more than the views tell of."""

from __future__ import annotations

from ledger.log.viewed import ahead_among, pages_of_streams
from ledger.stores.port import Store, StreamKey
from ledger.stores.values import FoundFields


async def told_of(store: Store) -> FoundFields:
    """Return the streams that no projector has finished, as the feeds tell; reads no streams."""
    return await store.look_up(None)


async def are_views_lost(store: Store) -> bool:
    """Return whether a projector has read a feed whose views are not compared with the log: they were dropped, or lag.

    Lists of what waits rest on the index of deadlines alone then.
    """
    return bool((await told_of(store)).read)


async def unprojected(store: Store) -> set[StreamKey]:
    """Return the streams that no projector has finished.

    Where no projector has compared all streams of a partition with their views, they are compared now.
    """
    told = await told_of(store)
    found = set(told.ahead)
    if told.unsure:
        async for keys in pages_of_streams(store, frozenset(told.unsure)):
            found.update(await ahead_among(store, keys))
    return found
