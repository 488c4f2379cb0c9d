"""The server's memory by what takes it: streams, views, feeds, and the rest."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from bench.place import Place

SAMPLE_COUNT: Final = 2000
"""Streams of which each one's memory is asked, at most; the server names keys in no order of ours."""

KEYS_AT_ONCE_COUNT: Final = 1000


class ServerMemory(NamedTuple):
    """Bytes of the server, besides those of an empty one."""

    total: float
    streams: float
    views: float
    feeds: float

    @property
    def rest(self) -> float:
        return self.total - self.streams - self.views - self.feeds


async def used_bytes(place: Place) -> int:
    return int((await place.info("memory"))["used_memory"])


async def server_memory(place: Place, empty_bytes: int) -> ServerMemory:
    """Measure views and feeds whole, and streams by a sample."""
    keys = place.keys
    streams: list[str] = []
    views: list[str] = []
    cursor = b"0"
    while True:
        cursor, names = await place.floor.send("SCAN", cursor, "COUNT", KEYS_AT_ONCE_COUNT)
        for name in (one.decode() for one in names):
            if keys.parse_stream(name) is not None:
                streams.append(name)
            elif keys.parse_view(name) is not None:
                views.append(name)
        if cursor == b"0":
            break
    step = max(1, len(streams) // SAMPLE_COUNT)
    sample = streams[::step]
    mean = sum(await _sizes(place, sample)) / max(1, len(sample))
    feeds = [keys.feed(partition) for partition in range(keys.count)]
    return ServerMemory(
        total=await used_bytes(place) - empty_bytes,
        streams=mean * len(streams),
        views=sum(await _sizes(place, views)),
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
