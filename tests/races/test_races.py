"""Four processes answer the same 10,000 requests at once: one outcome each, and all callers receive the same one."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from ledger import Ledger, Timeouts
from ledger.core.events import Asked, Replied
from ledger.core.grants import Recorded
from ledger.stores.port import StreamKey
from ledger.stores.urls import open_store
from tests.races.racer import ANSWERED_AT_ONCE_COUNT
from tests.support.auditor import Auditor
from tests.support.backends import log_of
from tests.support.decoding import decoded
from tests.support.processes import next_line, python
from tests.support.servers import RealServer

RACERS_COUNT: Final = 4
SESSIONS_COUNT: Final = 40
REQUESTS_COUNT: Final = 10_000

REQUESTS: Final = [(f"ses_{number % SESSIONS_COUNT}", f"r{number}") for number in range(REQUESTS_COUNT)]
PROGRAM: Final = "import sys; from tests.races.racer import main; main(*sys.argv[1:])"

Told = tuple[str, str, str, str | None, str | None, str, int]
"""Role, session, request, outcome, reply, by, at (ms)."""


async def open_sessions(url: str) -> None:
    """Open sessions in which a reject ends only its own request, so that every request is a race of its own."""
    async with Ledger.connect(url, entry_points=False) as ledger:
        for number in range(SESSIONS_COUNT):
            await ledger.session(f"ses_{number}", cascade_reject="none", timeouts=Timeouts(unattended=None))


def run_race(url: str, folder: Path) -> list[Told]:
    """Run all racers, and return the outcomes their calls received."""
    listed = folder / "requests.json"
    listed.write_text(json.dumps(REQUESTS))
    files = [folder / f"told{number}" for number in range(RACERS_COUNT)]
    with ExitStack() as stack:
        racers = [
            stack.enter_context(python(PROGRAM, url, f"{number}", f"{RACERS_COUNT}", listed, file))
            for number, file in enumerate(files)
        ]
        assert [next_line(racer) for racer in racers] == ["asked"] * RACERS_COUNT
        for _ in range(0, REQUESTS_COUNT, ANSWERED_AT_ONCE_COUNT):
            for racer in racers:
                assert racer.stdin
                racer.stdin.write("go\n")
                racer.stdin.flush()
            assert [next_line(racer) for racer in racers] == ["answered"] * RACERS_COUNT
        assert [next_line(racer) for racer in racers] == ["done"] * RACERS_COUNT
    return [as_told(json.loads(line)) for file in files for line in file.read_text().splitlines()]


def as_told(line: list[Any]) -> Told:
    role, session, request, outcome, reply, by, at_ms = line
    return role, session, request, outcome, reply, by, at_ms


async def logs(url: str) -> dict[str, list[Recorded]]:
    """Return every session's events, each checked to follow the one before."""
    store = open_store(url)
    await store.start()
    try:
        keys = [StreamKey("session", f"ses_{number}") for number in range(SESSIONS_COUNT)]
        return {key.id: decoded(key, await log_of(store, key)) for key in keys}
    finally:
        await store.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_ten_thousand_contested_requests_have_one_outcome_each_and_all_are_told_it(
    server: RealServer, tmp_path: Path
) -> None:
    await open_sessions(server.url)
    told = run_race(server.url, tmp_path)
    history = await logs(server.url)

    for records in history.values():
        assert Auditor().read(records).waiting() == []
    events = [(session, one) for session, records in history.items() for one in records]
    asked = [(session, one.event.request_id) for session, one in events if isinstance(one.event, Asked)]
    assert sorted(asked) == sorted(REQUESTS)
    winners = {
        (session, one.event.request_id): (one.event.outcome, one.event.reply, one.actor.name, one.ms)
        for session, one in events
        if isinstance(one.event, Replied)
    }
    assert sum(isinstance(one.event, Replied) for _, one in events) == len(winners) == REQUESTS_COUNT

    wrong = [one for one in told if winners[one[1], one[2]] != one[3:]]
    assert wrong == []
    assert Counter(role for role, *_ in told) == {"asker": REQUESTS_COUNT, "approver": RACERS_COUNT * REQUESTS_COUNT}
    # It was a race: each process won some.
    assert {by for _, _, by, _ in winners.values()} == {f"racer{number}" for number in range(RACERS_COUNT)}
