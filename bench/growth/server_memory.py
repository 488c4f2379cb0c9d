"""The server's memory by what takes it: the views, the feeds, and the log, which is nearly all of the rest.

The server tells its whole use, and that of one hash or sorted set. What it tells of one stream is an estimate, which for
sessions of ten events is half too high.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from bench.place import KEYS_AT_ONCE_COUNT, Place


class ServerMemory(NamedTuple):
    """Bytes of the server, besides those of an empty one; those of the views by name, in all partitions."""

    total: float
    by_view: Counter[str]
    feeds: float

    @property
    def views(self) -> float:
        return self.by_view.total()

    @property
    def log(self) -> float:
        return self.total - self.views - self.feeds


async def used_bytes(place: Place) -> int:
    return int((await place.info("memory"))["used_memory"])


async def resident_bytes(place: Place) -> int:
    """Return the memory that the system counts for the server: what it uses, and what it has freed and not given back."""
    return int((await place.info("memory"))["used_memory_rss"])


async def server_memory(place: Place, empty_bytes: int) -> ServerMemory:
    """Measure the whole, and every view and feed."""
    views: dict[str, str] = {}
    async for names in place.keys_of_server():
        parsed = ((name, place.keys.parse_view(name)) for name in names)
        views |= {name: one[1] for name, one in parsed if one is not None}
    feeds = [place.keys.feed(partition) for partition in range(place.keys.count)]
    by_view: Counter[str] = Counter()
    for view, size in zip(views.values(), await _sizes(place, list(views)), strict=True):
        by_view[view] += size
    return ServerMemory(
        total=await used_bytes(place) - empty_bytes,
        by_view=by_view,
        feeds=sum(await _sizes(place, feeds)),
    )


async def _sizes(place: Place, names: list[str]) -> list[int]:
    """Return the bytes of each key with all its elements; 0 for a key that is missing."""
    sizes: list[int] = []
    for first in range(0, len(names), KEYS_AT_ONCE_COUNT):
        some = names[first : first + KEYS_AT_ONCE_COUNT]
        found = await asyncio.gather(*(place.floor.send("MEMORY", "USAGE", name, "SAMPLES", 0) for name in some))
        sizes += [one or 0 for one in found]
    return sizes
