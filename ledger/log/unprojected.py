"""The streams that may have more than the views tell of."""

from __future__ import annotations

from ledger.log.viewed import ahead_among, pages_of_streams
from ledger.stores.admin import FoundFields
from ledger.stores.port import Store, StreamKey


async def told_of(store: Store) -> FoundFields:
    """Return the streams that no projector has finished, as the feeds tell; reads no streams."""
    return await store.views.look_up((), "", 0)


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
