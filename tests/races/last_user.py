"""One process of a race for the uses of a project's grant: its workers ask at once, each in a session of its own.

It prints `ready`, asks after a line on stdin, and prints the outcomes as a JSON array.
"""

from __future__ import annotations

import asyncio
import json
import sys

from ledger import Ledger


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def race(url: str, process: str, workers_count: int) -> list[tuple[str, str | None]]:
    """Return the session and the outcome of each worker."""
    async with Ledger.connect(url, entry_points=False) as ledger:
        names = [f"ses_{process}_{number}" for number in range(workers_count)]
        sessions = [await ledger.session(name, project="shop") for name in names]
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        asked = [session.submit("bash", ["git push"], request_id="call_1") for session in sessions]
        return [(result.session, result.outcome) for result in await asyncio.gather(*asked)]


def main(url: str, process: str, workers_count: str) -> None:
    say(json.dumps(asyncio.run(race(url, process, int(workers_count)))))
