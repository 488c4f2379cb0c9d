"""Four processes approve the same requests at once, two of them as one person: no person alone ever allows a call.

The log alone is read for the verdict, and what the processes were told must be what it says.
`PERMISSION_LEDGER_TEST_APPROVALS=1000000` makes it a million races, which takes ten times as long.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from ledger import Ledger
from ledger.core.characters import person_key
from ledger.core.events import Actor, Agreed, Replied
from ledger.log.tail import read_events
from ledger.stores.port import StreamKey
from tests.races.approver import PEOPLE, is_alone, needed_in, patiently
from tests.races.contender import id_of, session_of
from tests.support.auditor import Auditor
from tests.support.processes import next_line, python

if TYPE_CHECKING:
    from tests.support.servers import StartServer

COUNT_VARIABLE: Final = "PERMISSION_LEDGER_TEST_APPROVALS"
"""The number of raced requests."""

RACES_COUNT: Final = int(os.environ.get(COUNT_VARIABLE, "100000"))
FEW_RACES_COUNT: Final = 2_400
REQUESTS_A_SESSION: Final = 200
RACED_AT_ONCE_COUNT: Final = 3_000
PROGRAM: Final = "import sys; from tests.races.approver import main; main(*sys.argv[1:])"
ROBOT: Final = Actor("agent", "robot")


async def race(url: str, folder: Path, races_count: int) -> Counter[str]:
    """Let the processes answer all requests; return the number of requests by their end. Fails for a wrong end."""
    sessions_count = max(4, races_count // REQUESTS_A_SESSION)
    files = [folder / f"told{number}" for number in range(len(PEOPLE))]
    async with Ledger.connect(url, entry_points=False) as ledger:
        names = [f"ses_{number}" for number in range(sessions_count)]
        rules = {"permission": {"bash": "ask"}}
        sessions = {
            name: await patiently(partial(ledger.session, name, rules=rules, demands=[{"approvers": needed_in(name)}]))
            for name in names
        }
        with ExitStack() as running:
            approvers = [
                running.enter_context(python(PROGRAM, url, f"{number}", f"{sessions_count}", file))
                for number, file in enumerate(files)
            ]
            for approver in approvers:
                assert next_line(approver) == "ready"
            for first in range(0, races_count, RACED_AT_ONCE_COUNT):
                some = range(first, min(first + RACED_AT_ONCE_COUNT, races_count))
                await asyncio.gather(
                    *(
                        patiently(
                            partial(
                                sessions[session_of(one, sessions_count)].submit,
                                "bash",
                                [f"make {one}"],
                                request_id=id_of(one),
                                actor=ROBOT,
                            )
                        )
                        for one in some
                    )
                )
                for approver in approvers:
                    _go(approver, some)
                for approver in approvers:
                    assert await asyncio.to_thread(next_line, approver) == "done"
        ends: dict[int, str] = {}
        for name in names:
            ends |= await _ends_in(ledger, name)
        assert sorted(ends) == list(range(races_count))
        for file in files:
            for request, outcome in map(json.loads, file.read_text().splitlines()):
                assert outcome is None or ends[request] == outcome == "allowed"
    return Counter(ends.values())


def _go(approver: subprocess.Popen[str], some: range) -> None:
    assert approver.stdin
    approver.stdin.write(f"{some.start} {some.stop}\n")
    approver.stdin.flush()


async def _ends_in(ledger: Ledger, session: str) -> dict[int, str]:
    """Return how each request of a session ended, by its events. Fails for an allow by too few people."""
    records = [one async for one in read_events(ledger.store, StreamKey("session", session))]
    Auditor().read(records)
    agreed: dict[int, list[str]] = {}
    ends: dict[int, str] = {}
    for one in records:
        if not isinstance(one.event, Agreed | Replied):
            continue
        request = int(one.event.request_id[1:])
        before = agreed.setdefault(request, [])
        assert request not in ends, "exactly one `replied`, and nothing after it"
        assert person_key(one.actor.name) not in before, "a person counts once"
        before.append(person_key(one.actor.name))
        if isinstance(one.event, Replied):
            assert one.event.outcome == "allowed"
            assert [person_key(name) for name in one.event.approvers] == before, "it names all who approved"
            assert len(before) == needed_in(session), "as many as the rule demands, and no yes too many"
            assert not is_alone(request), "one person alone allows nothing"
            ends[request] = "allowed"
    return {request: ends.get(request, "pending") for request in agreed}


def expected(races_count: int) -> Counter[str]:
    alone = sum(map(is_alone, range(races_count)))
    return Counter(allowed=races_count - alone, pending=alone)


@pytest.mark.slow
async def test_nobody_allows_alone_in_a_few_thousand_races(start_server: StartServer, tmp_path: Path) -> None:
    assert await race(start_server().url, tmp_path, FEW_RACES_COUNT) == expected(FEW_RACES_COUNT)


@pytest.mark.slow
@pytest.mark.timeout(300 + RACES_COUNT // 100)
async def test_nobody_allows_alone_in_all_races(start_server: StartServer, tmp_path: Path) -> None:
    assert await race(start_server().url, tmp_path, RACES_COUNT) == expected(RACES_COUNT)
