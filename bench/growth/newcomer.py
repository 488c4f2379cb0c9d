"""A new process that asks in a session: `python -m bench.growth.newcomer URL SESSION`.

Prints the milliseconds from its connection to the answer.
"""

from __future__ import annotations

import asyncio
import sys
import time

import ledger.client.session  # noqa: F401 - imports the rules, which would be measured otherwise
from ledger import Ledger


async def main(url: str, session_id: str) -> None:
    async with Ledger.connect(url, actor="agent", entry_points=False) as ledger:
        began = time.perf_counter()
        session = await ledger.attach(session_id)
        await session.ask("bash", ["git status"])
        print((time.perf_counter() - began) * 1e3, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
