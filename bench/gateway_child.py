"""A gateway as a process of its own: `python -m bench.gateway_child URL SOCKET [limited]`.

Prints a token when it takes requests, and its memory (bytes) and processor time (ns) after each line on stdin.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from pathlib import Path

from bench.waiters import resident_bytes
from ledger import Ledger
from workers.gateway.gateway import Gateway
from workers.gateway.server import ListenAddress, listen, run
from workers.gateway.settings import GatewaySettings
from workers.runtime.process import import_judging

UNLIMITED = GatewaySettings(requests_per_second=1e9, requests_burst=1e9)


def say(text: object) -> None:
    print(text, flush=True)


async def main(url: str, path: str, *, limited: bool) -> None:
    import_judging()  # as `serve` does
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told() -> None:
        if sys.stdin.readline():
            gc.collect()
            say(f"{resident_bytes()} {time.process_time_ns()}")

    async with Ledger.connect(url, entry_points=False) as ledger:
        token = (await ledger.tokens.create("bench", "admin")).text
        loop.add_reader(sys.stdin.fileno(), told)

        def ready(_: Gateway) -> None:
            say(token)

        await run(
            ledger, GatewaySettings() if limited else UNLIMITED, [listen(ListenAddress(path=Path(path)))], stop, ready
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], limited="limited" in sys.argv[3:]))
