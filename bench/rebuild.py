"""Rebuilding state with every link of the chain checked, against only reading the entries."""

from __future__ import annotations

import asyncio
import time

from bench.place import ALLOW, Place, Probe
from bench.report import Asked, Fsync
from ledger.log.stream import Stream
from ledger.stores.port import StreamKey

EVENTS_COUNT = 1000


class Rebuild(Probe):
    """Sessions of a thousand events each, read in sequence by one process."""

    name = "rebuild"

    async def start(self, place: Place) -> None:
        self._place = place
        self._keys: list[StreamKey] = []
        for i in range(self.size(10, 3)):
            session = await place.ledger.session(f"rebuild-{i}", rules=ALLOW)
            await asyncio.gather(*(session.ask("bash", [f"git show {n}"]) for n in range(EVENTS_COUNT)))
            self._keys.append(StreamKey("session", session.id))

    async def round(self, fsync: Fsync) -> None:
        began = time.perf_counter()
        read = sum([await self._place.floor.pages(self._place.keys.stream(key)) for key in self._keys])
        self._rounds.add(fsync, "floor", read / (time.perf_counter() - began))
        began = time.perf_counter()
        folded = sum([await self._fold(key) for key in self._keys])
        self._rounds.add(fsync, "ledger", folded / (time.perf_counter() - began))
        assert folded == read, "not every event was folded"

    async def _fold(self, key: StreamKey) -> int:
        stream = Stream(self._place.ledger.store, key, self._place.ledger.streams.session_fold)
        return (await stream.refresh()).version

    def asked(self) -> list[Asked]:
        what = "rebuild of sessions, chain verified"
        return [Asked(what, "everysec", "ledger", "events/s", "floor", at_least=1 / 9)]
