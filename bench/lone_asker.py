"""One process of `bench.versions`: lone asks of one kind, with the version of the ledger that its path names.

For each line with a number on stdin it asks so many times, and prints the microseconds of the processor for one ask, and
of the clock (median). It uses only what the ledger had before claims, unless its kind asks for more.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from statistics import median
from typing import Any

from ledger import Ledger

ALLOW = ({"permission": "bash", "pattern": "*", "action": "allow"},)
WARM_COUNT = 200


async def ask_often(url: str, kind: str) -> None:
    connected: dict[str, Any] = {"masks": False} if kind.endswith("without masks") else {}
    more: dict[str, Any] = {"claim": "bench"} if kind.startswith("claim") else {}
    async with Ledger.connect(url, actor="bench", entry_points=False, **connected) as ledger:
        session = await ledger.session("lone", rules=ALLOW)
        for _ in range(WARM_COUNT):
            await session.ask("bash", ["git status"], **more)
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            gc.collect()
            seconds = []
            used = time.process_time()
            for _ in range(int(line)):
                began = time.perf_counter()
                await session.ask("bash", ["git status"], **more)
                seconds.append(time.perf_counter() - began)
            used = time.process_time() - used
            print(used / int(line) * 1e6, median(seconds) * 1e6, flush=True)


if __name__ == "__main__":
    asyncio.run(ask_often(*sys.argv[1:]))
