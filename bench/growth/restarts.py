"""Starts of the server over a filled folder, from its file in three forms."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from bench.growth.filling import tell
from bench.growth.server_memory import resident_bytes, used_bytes
from bench.place import Place, place_at
from ledger.stores.embedded import embedded_server
from projections.queries import totals

if TYPE_CHECKING:
    from pathlib import Path

    from bench.growth.rows import Figures

START_SECONDS: Final = 1800.0
REWRITE_LOOK_MS: Final = 100


class Restarts:
    """Restarts of one size; `before` is the beginning of the names of the rows."""

    def __init__(self, folder: Path, figures: Figures, empty_bytes: int, *, quick: bool, before: str = "") -> None:
        self._folder = folder
        self._figures = figures
        self._empty_bytes = empty_bytes
        self._quick = quick
        self._before = before

    async def measure(self, size: int) -> None:
        tell(f"{size:,} sessions: restart")
        await self._restart("restart", size, rewritten_with_preamble="no")
        await self._restart("restart rewritten", size, rewritten_with_preamble="yes")
        await self._restart("restart in RDB", size, rewritten_with_preamble=None)

    async def _restart(self, row: str, size: int, *, rewritten_with_preamble: str | None) -> None:
        """Time a start of the server; afterwards it writes its file anew for the next one, in one form or the other."""
        began = time.perf_counter()
        async with embedded_server(self._folder, start_timeout_s=START_SECONDS) as server:
            self._figures.add(self._before + row, size, time.perf_counter() - began)
            async with place_at(server.url, quick=self._quick) as place:
                if rewritten_with_preamble is None:
                    events = (await totals(place.ledger.store)).events
                    used = await used_bytes(place) - self._empty_bytes
                    self._figures.add(self._before + "memory restarted", size, used / events)
                    self._figures.add(self._before + "resident restarted", size, await resident_bytes(place) / 1e6)
                    return
                await place.floor.send("CONFIG", "SET", "aof-use-rdb-preamble", rewritten_with_preamble)
                await place.floor.send("BGREWRITEAOF")
                await until_rewritten(place)


async def until_rewritten(place: Place) -> None:
    """Wait while the server writes its file anew, which it also does by itself, and which slows all answers."""
    clock = place.ledger.store.clock
    while set(await _rewriting(place)) != {"0"}:
        await clock.wait_until(clock.now_ms() + REWRITE_LOOK_MS)


async def _rewriting(place: Place) -> tuple[str, str]:
    """Return whether the server writes its file anew, and whether it is about to."""
    told = await place.info("persistence")
    return told["aof_rewrite_in_progress"], told["aof_rewrite_scheduled"]
