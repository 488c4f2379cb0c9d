"""The streams that may have more than the views tell of."""

from __future__ import annotations

from typing import Final

from ledger.log.viewed import ahead_among, pages_of_streams
from ledger.stores.admin import PROJECTORS, FoundFields
from ledger.stores.port import Store, StreamKey

NOTHING_READ: Final = "0-0"
"""The place of a group in a feed that it has not begun to read."""


async def told_of(store: Store) -> FoundFields:
    """Return the streams that no projector has finished, as the feeds tell; reads no streams."""
    return await store.views.look_up(None)


async def are_views_lost(store: Store) -> bool:
    """Return whether a projector has read a feed whose views are not compared with the log: they were dropped, or lag.

    Lists of what waits rest on the index of deadlines alone then.
    """
    unsure = (await told_of(store)).unsure
    places = await store.admin.places(unsure, PROJECTORS) if unsure else {}
    return any(place not in ("", NOTHING_READ) for place in places.values())


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
