"""Round trips: ask, reply in another process, resume; against XADD and XREAD each way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from bench.floor import FloorClient
from bench.place import ASK, PAYLOAD, Child, Place, Probe, child
from bench.replier import REPLIES, REQUESTS, read_on
from bench.report import FSYNCS, Asked, Fsync, percentile, timed
from ledger import Session

MANY_COUNT = 64


class FloorTrips:
    """Requests in one stream, replies in another; one reader forwards replies to the askers."""

    def __init__(self, client: FloorClient, reader: FloorClient) -> None:
        self._client = client
        self._reader = reader
        self._waiting: dict[bytes, asyncio.Future[None]] = {}
        self._count = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(read_on(self._reader, REPLIES, self._woken))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _woken(self, number: bytes) -> None:
        future = self._waiting.pop(number, None)
        if future is not None:
            future.set_result(None)

    async def trip(self, _: int) -> None:
        self._count += 1
        number = b"%d" % self._count
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        await self._client.send("XADD", REQUESTS, "*", "n", number, "d", PAYLOAD)
        await future


class Trips(Probe):
    """Round trips with one, 64 and a thousand waiters, each in a session of its own."""

    name = "trips"
    fsyncs = FSYNCS

    @property
    def _crowd(self) -> int:
        return self.size(1000, 200)

    async def start(self, place: Place) -> None:
        self._sessions: list[Session] = [await place.ledger.session(f"trip-{i}", rules=ASK) for i in range(self._crowd)]
        replier: Child = await place.stack.enter_async_context(child("bench.replier", place.url, self._crowd))
        assert await replier.line() == "ready"
        floor = FloorTrips(place.floor, await place.another_floor())
        await floor.start()
        place.stack.push_async_callback(floor.stop)
        self._trips = {"floor": floor.trip, "ledger": self._ask}

    async def _ask(self, i: int) -> Any:
        return await self._sessions[i].ask("bash", ["git push"])

    async def round(self, fsync: Fsync) -> None:
        alone = {f"{figure} 1": partial(timed, trip, 0) for figure, trip in self._trips.items()}
        await self._rounds.in_turn(fsync, alone, self.size(150, 50))
        for figure, trip in self._trips.items():
            rate, _ = await _together(trip, MANY_COUNT, self.size(10, 5))
            self._rounds.add(fsync, f"{figure} 64", rate)
        for figure, trip in self._trips.items():
            _, seconds = await _together(trip, self._crowd, 2)
            self._rounds.add(fsync, f"{figure} crowd", percentile(seconds, 99) * 1e3)

    def asked(self) -> list[Asked]:
        what = "ask, reply elsewhere, resume"
        limits: tuple[tuple[Fsync, float, float], ...] = (("everysec", 2.5, 1 / 9), ("always", 1.9, 1 / 9))
        rows = []
        for fsync, lone, many in limits:
            rows += [
                Asked(f"{what}: 1 waiting, p50", fsync, "ledger 1", "us", "floor 1", at_most=lone),
                Asked(f"{what}: {MANY_COUNT} waiting", fsync, "ledger 64", "/s", "floor 64", at_least=many),
                Asked(f"{what}: {self._crowd:,} waiting, p99", fsync, "ledger crowd", "ms", "floor crowd", at_most=8),
            ]
        return rows


async def _together(trip: Callable[[int], Awaitable[object]], count: int, each: int) -> tuple[float, list[float]]:
    """Return the trips per second, and the seconds of each."""
    seconds: list[float] = []

    async def one(i: int) -> None:
        seconds.extend([await timed(trip, i) for _ in range(each)])

    began = time.perf_counter()
    await asyncio.gather(*(one(i) for i in range(count)))
    return count * each / (time.perf_counter() - began), seconds
