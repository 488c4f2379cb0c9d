"""The process of the waiters: `python -m bench.waiters URL PREFIX COUNT`.

Prints its memory with one waiter, then with all, then the time of each wake-up; a woken waiter asks again.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from pathlib import Path

from bench.place import ASK
from ledger import Ledger

AT_ONCE_COUNT = 128


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def wait_in(ledger: Ledger, name: str, gate: asyncio.Semaphore, asked: asyncio.Semaphore) -> None:
    async with gate:
        session = await ledger.session(name, rules=ASK)
        result = await session.submit("bash", ["git push"], request_id=f"{name}-0")
    asked.release()
    turn = 0
    while True:
        await session.wait(result.request_id)
        print(name, time.monotonic_ns(), flush=True)
        turn += 1
        result = await session.submit("bash", ["git push"], request_id=f"{name}-{turn}")


async def main(url: str, prefix: str, count: int) -> None:
    gate, asked = asyncio.Semaphore(AT_ONCE_COUNT), asyncio.Semaphore(0)
    async with Ledger.connect(url, actor="waiter", entry_points=False) as ledger, asyncio.TaskGroup() as group:
        for first, last in ((0, 1), (1, count)):
            for i in range(first, last):
                group.create_task(wait_in(ledger, f"{prefix}-{i}", gate, asked))
            for _ in range(first, last):
                await asked.acquire()
            # Time for the last waiter to get from asking to waiting.
            await asyncio.sleep(0.5)
            gc.collect()
            print(resident_bytes(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
