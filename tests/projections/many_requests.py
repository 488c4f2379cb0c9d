"""A process in which a session of many requests is lived through: `python -m tests.projections.many_requests URL COUNT`.

They come in waves: half of each is answered, the others expire. Prints one JSON object: the requests by outcome, and how
much the process has grown meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from ledger import Ledger, Session, Timeouts
from ledger.log.fold_cache import fold_bytes
from ledger.log.plans import SETTLE
from ledger.testing import TestClock
from projections.engine import Engine
from tests.support.backends import PARTITION_COUNT
from workers.presentation.moments import Clients, moment_json

WAVE_COUNT: Final = 1000
AT_ONCE_COUNT: Final = 250
PAGE_COUNT: Final = 50


def resident_bytes() -> int:
    """Return the memory of this process, as Linux tells it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def in_turns(count: int, first: int, work: str, session: Session) -> None:
    for start in range(first, first + count, AT_ONCE_COUNT):
        numbers = range(start, min(start + AT_ONCE_COUNT, first + count))
        if work == "ask":
            await asyncio.gather(
                *(session.submit("bash", [f"npm run task{n}"], request_id=f"per_{n:026}") for n in numbers)
            )
        else:
            await asyncio.gather(*(session.reply(f"per_{n:026}", "once", actor="ann") for n in numbers))


async def main(url: str, count: int) -> None:
    clock = TestClock()
    async with Ledger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        session = await ledger.session("ses_1", timeouts=Timeouts(unattended=60))
        engine = Engine(ledger.store)
        await in_turns(WAVE_COUNT, 0, "ask", session)
        before, most = resident_bytes(), 0
        for first in range(0, count, WAVE_COUNT):
            if first:
                await in_turns(WAVE_COUNT, first, "ask", session)
            await in_turns(WAVE_COUNT // 2, first, "reply", session)
            clock.advance("61s")
            while (await session.stream.submit(SETTLE)).state.pending:
                pass
            await engine.catch_up(session.stream.key)
            shown = moment_json(await ledger.state_at("ses_1"), [], Clients("online", []), limit=PAGE_COUNT)
            assert len(shown["state"]["settled"]) == PAGE_COUNT
            most = max(most, resident_bytes() - before)
        state = await session.state()
    outcomes = Counter(one.outcome for one in state.settled.values())
    found = {"outcomes": outcomes, "grown_bytes": most, "fold_bytes": fold_bytes(state)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
