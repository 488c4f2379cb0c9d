"""The memory of a projector with small caches: it ends to grow when they are full."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Final

import pytest

from ledger import Ledger
from ledger.log.fold_cache import LEAST_MB, MB, VARIABLE
from tests.support.processes import next_line, python
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.projector import Pace, Projector

ASKER: Final = """
import asyncio, sys
from ledger import Ledger

async def work(session, first, count):
    for number in range(first, first + count):
        await session.submit("bash", [f"make {number}"], request_id=f"{session.id}_{number}")
        await session.reply(f"{session.id}_{number}", "once", actor="ann")

async def main():
    async with Ledger.connect(sys.argv[1], entry_points=False) as ledger:
        sessions = [await ledger.session(f"ses_{number}") for number in range(6)]
        done = 0
        for line in sys.stdin:
            count = int(line) // len(sessions)
            await asyncio.gather(*(work(session, done, count) for session in sessions))
            done += count
            print("done", flush=True)

asyncio.run(main())
"""

WARM_COUNT: Final = 4_200
"""Requests after which the caches are full."""

MORE_COUNT: Final = 12_000
GROWN_BYTES_MAX: Final = 3 * MB
"""As much as the full caches, and what is read at the moment, may differ: 260 bytes for each of those requests."""

EVENTS_A_REQUEST: Final = 2


@pytest.mark.slow
async def test_with_small_caches_a_projector_ends_to_grow(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(LEAST_MB))
    stop = asyncio.Event()
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        projector = Projector(ledger, Pace())
        running = asyncio.create_task(projector.run(stop))
        with python(ASKER, server.url) as asker:

            async def after(count: int, of_all: int) -> int:
                """Return what is held after so many requests more."""
                assert asker.stdin
                asker.stdin.write(f"{count}\n")
                asker.stdin.flush()
                assert await asyncio.to_thread(next_line, asker) == "done"
                wanted = of_all * EVENTS_A_REQUEST
                await wait_until_async(
                    lambda: projector._worker.events >= wanted, "all events in the views", timeout_s=200
                )  # traced memory slows it down
                gc.collect()
                return tracemalloc.get_traced_memory()[0]

            tracemalloc.start()
            try:
                before = await after(WARM_COUNT, WARM_COUNT)
                grown = await after(MORE_COUNT, WARM_COUNT + MORE_COUNT) - before
            finally:
                tracemalloc.stop()
        stop.set()
        await running
    assert grown <= GROWN_BYTES_MAX, f"{grown / MORE_COUNT:.0f} bytes a request"
