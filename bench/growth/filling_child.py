"""One of the processes that fill the ledger: `python -m bench.growth.filling_child URL PENDING FIRST END STEP`.

Prints the number of sessions written since the last line, and `done`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from bench.growth.lives import EVENTS_COUNT, live, session_of
from ledger import Ledger

AT_ONCE_COUNT: Final = 64
TOLD_EVERY_COUNT: Final = 200


async def main(url: str, pending_count: int, first: int, end: int, step: int) -> None:
    numbers = iter(range(first, end, step))
    written = 0

    async def write(ledger: Ledger) -> None:
        nonlocal written
        for number in numbers:
            await live(ledger, number, pending_count)
            written += 1
            if written >= TOLD_EVERY_COUNT:
                print(written, flush=True)
                written = 0

    async with Ledger.connect(url, actor="agent", entry_points=False) as ledger:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE_COUNT):
                group.create_task(write(ledger))
        state = await (await ledger.attach(session_of(first))).state()
        assert state.version == EVENTS_COUNT, f"a session of {state.version} events"
    print(written, flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
