"""Passes over everything in this process: verification and rebuilding, beside a bare read."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from redis import Redis

from bench.growth.rows import Figures
from bench.place import Place
from ledger.core.limits import PAGE_COUNT
from ledger.log.archive.archive import all_streams
from ledger.stores.port import StreamKey
from workers.runtime.children import collect_rarely
from workers.upkeep.works import CHECKED_AT_ONCE_COUNT, check_streams, portions_to_check, rebuild_views

Work = Callable[[Sequence[StreamKey]], Awaitable[int]]
"""A pass over these streams, which returns the number of their events."""


class Passes:
    """`verify --all` and `rebuild` as one of their processes does them; the rates include the scan of keys."""

    def __init__(self, place: Place, figures: Figures, size: int, repetitions: int) -> None:
        self._place = place
        self._figures = figures
        self._size = size
        self._repetitions = repetitions

    async def measure(self) -> None:
        collect_rarely()
        for _ in range(self._repetitions):
            bare, checked = await self._rate_of(self._read), await self._rate_of(self._verify)
            usual = await self._rate_of(self._read_with_redis_py)
            self._figures.add("xrange", self._size, bare)
            self._figures.add("verify", self._size, checked)
            self._figures.add("verify of xrange", self._size, checked / bare)
            self._figures.add("verify of redis-py", self._size, checked / usual)
            self._figures.add("rebuild", self._size, await self._rate_of(self._rebuild))

    async def _rate_of(self, work: Work) -> float:
        began = time.perf_counter()
        keys = sorted([key async for key in all_streams(self._place.ledger.store)])
        events = await work(keys)
        return events / (time.perf_counter() - began)

    async def _read(self, keys: Sequence[StreamKey]) -> int:
        names = [self._place.keys.stream(key) for key in keys]
        events = 0
        for first in range(0, len(names), CHECKED_AT_ONCE_COUNT):
            some = names[first : first + CHECKED_AT_ONCE_COUNT]
            pages = await asyncio.gather(
                *(self._place.floor.send("XRANGE", name, "-", "+", "COUNT", PAGE_COUNT) for name in some)
            )
            events += sum(map(len, pages))
        return events

    async def _read_with_redis_py(self, keys: Sequence[StreamKey]) -> int:
        """Read the same through redis-py, as a program without a client of its own does."""
        names = [self._place.keys.stream(key) for key in keys]
        events = 0
        with Redis.from_url(self._place.url) as client:
            for first in range(0, len(names), CHECKED_AT_ONCE_COUNT):
                pipeline = client.pipeline(transaction=False)
                for name in names[first : first + CHECKED_AT_ONCE_COUNT]:
                    pipeline.xrange(name, count=PAGE_COUNT)
                events += sum(map(len, pipeline.execute()))
        return events

    async def _verify(self, keys: Sequence[StreamKey]) -> int:
        events = 0
        for portion in portions_to_check(keys, {}):
            checked = await check_streams("chain", None, self._place.ledger, portion)
            assert all(one.ok for one in checked), [one for one in checked if not one.ok]
            events += sum(one.versions for one in checked)
        return events

    async def _rebuild(self, keys: Sequence[StreamKey]) -> int:
        names = await self._place.ledger.store.views()
        by_partition: dict[int, list[StreamKey]] = defaultdict(list)
        for key in keys:
            by_partition[key.partition(self._place.ledger.store.partition_count)].append(key)
        events = 0
        for partition, some in sorted(by_partition.items()):
            portion = (partition, some, names.get(partition, []))
            _, count, problems = await rebuild_views(self._place.ledger, portion)
            assert not problems, problems
            events += count
        return events
