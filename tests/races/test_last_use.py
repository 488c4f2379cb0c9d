"""64 workers of four processes want the uses of one grant at once: exactly as many are allowed as there are uses."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Final

import pytest

from ledger import Ledger
from ledger.core.events import Asked, UseTaken
from ledger.log.tail import read_events
from ledger.policy import Verdict
from ledger.stores.port import StreamKey
from tests.support.processes import next_line, python
from tests.support.servers import RealServer

PROCESSES_COUNT: Final = 4
WORKERS_COUNT: Final = 16

PROGRAM: Final = "import sys; from tests.races.last_user import main; main(*sys.argv[1:])"


def run_race(url: str) -> list[tuple[str, str | None]]:
    with ExitStack() as stack:
        racers = [
            stack.enter_context(python(PROGRAM, url, f"{number}", f"{WORKERS_COUNT}"))
            for number in range(PROCESSES_COUNT)
        ]
        assert [next_line(racer) for racer in racers] == ["ready"] * PROCESSES_COUNT
        for racer in racers:
            assert racer.stdin
            racer.stdin.write("go\n")
            racer.stdin.flush()
        return [(session, outcome) for racer in racers for session, outcome in json.loads(next_line(racer))]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("uses", [1, 10])
async def test_the_last_use_goes_to_one_of_64_racing_workers(server: RealServer, uses: int) -> None:
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        made = await ledger.grant_in_project("shop", "bash", "git *", uses=uses)
        told = run_race(server.url)
        allowed = {session for session, outcome in told if outcome == "allowed"}
        waiting = {session for session, outcome in told if outcome is None}
        assert (len(allowed), len(waiting)) == (uses, PROCESSES_COUNT * WORKERS_COUNT - uses)

        events = [one.event async for one in read_events(ledger.store, StreamKey("project", "shop"))]
        assert {one.session for one in events if isinstance(one, UseTaken)} == allowed
        for session in allowed | waiting:
            logged = [one.event async for one in read_events(ledger.store, StreamKey("session", session))]
            (asked,) = [one for one in logged if isinstance(one, Asked)]
            assert (asked.verdict is Verdict.ALLOW, asked.uses) == (
                (True, (made.grant.grant_id,)) if session in allowed else (False, ())
            )
