"""Processes killed at random moments: the outcomes that callers received are those of the log, once each.

The moment is random: it comes when a number of the calls in flight have been answered, and the others have not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import pytest

from ledger import Ledger
from ledger.log.tail import read_events
from ledger.stores.embedded import stop
from ledger.stores.port import StreamKey
from tests.journeys.processes import ANSWER_S, PlayerProcess, Process, Stage
from tests.support.auditor import Auditor
from tests.support.waiting import wait_until

ROUNDS_COUNT: Final = 12
REQUESTS_A_ROUND: Final = 8
SEEDS: Final = (1, 2)

SHORT: Final = "ses_short"
"""A session whose requests expire after a second, so that replies race with the expiry worker."""

SESSIONS: Final = ("ses_1", "ses_2", SHORT)
PEOPLE: Final = ("ann", "bob")
REPLIES: Final = ("once", "reject", "always")

# Errors a call may end with while processes die: none of them is a false answer.
EXPECTED_ERRORS: Final = {
    "ALREADY_ANSWERED",
    "IN_DOUBT",
    "PERMISSION_STALE",
    "UNKNOWN_REQUEST",
    "UNKNOWN_SESSION",
    "UNREACHABLE",
}

Call = tuple[str, Future[dict[str, Any]]]
"""A call's request, and its answer, which never comes if one of the two processes is killed."""


class Chaos:
    """Two agents, two people, an expiry worker and a projector on one data folder."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = random.Random(seed)
        self.players: dict[str, PlayerProcess] = {}
        self.workers: dict[str, Process] = {}
        self.calls: list[Call] = []
        self.requests: dict[str, str] = {}

    def begin(self) -> None:
        names = ("agent-0", "agent-1", *PEOPLE)
        self.players = dict(zip(names, self.stage.players(*names), strict=True))
        for name in ("expiry", "projector"):
            self.workers[name] = self.stage.run("worker", name)
        for session in SESSIONS:
            timeouts = {"unattended": 1} if session == SHORT else None
            self.players["agent-0"].do("open", on=session, project="shop", cascade_reject="none", timeouts=timeouts)

    def play(self) -> None:
        """Run one round: agents ask, people answer at the same time, and a process is killed meanwhile."""
        under_way = [call for number in range(REQUESTS_A_ROUND) for call in self._ask_and_answer(number)]
        self.random.shuffle(under_way)
        enough = self.random.randrange(len(under_way))
        wait_until(lambda: sum(answer.done() for _, answer in under_way) >= enough, "some answers", ANSWER_S)
        self._kill(self.random.choice(["server", *self.players, *self.workers]))

    def _ask_and_answer(self, number: int) -> list[Call]:
        request = f"r{len(self.requests)}"
        session = self.requests[request] = self.random.choice(SESSIONS)
        agent = self.players[f"agent-{number % 2}"]
        pattern = f"make {number}"
        calls = [(request, agent.begin("submit", "bash", [pattern], always=[pattern], on=session, request_id=request))]
        for name in PEOPLE:
            reply = self.random.choices(REPLIES, (6, 6, 1))[0]
            calls.append((request, self.players[name].begin("reply", request, reply, on=session)))
        self.calls += calls
        return calls

    def _kill(self, victim: str) -> None:
        if victim == "server":
            self.stage.kill_server()
        elif victim in self.workers:
            self.workers[victim].kill9()
            self.workers[victim] = self.stage.run("worker", victim)
        else:
            self.players[victim].kill9()
            self.players[victim] = self.stage.player(victim)

    def end(self) -> dict[str, dict[str, Any]]:
        """Repeat all asks without a known outcome, and answer them; return how each request ended."""
        agent, person = self.players["agent-0"], self.players["ann"]
        for request, session in self.requests.items():
            number = int(request[1:]) % REQUESTS_A_ROUND
            pattern = f"make {number}"
            asked = agent.do("submit", "bash", [pattern], always=[pattern], on=session, request_id=request)
            if asked["outcome"] is None:
                person.begin("reply", request, "once", on=session).result(ANSWER_S)
        return {one: agent.do("result", one, on=session) for one, session in self.requests.items()}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "data")
    yield stage
    stage.close()
    stop(stage.folder.path)


def told(calls: list[Call]) -> list[tuple[str, dict[str, Any]]]:
    """Return the outcomes that callers received, for those whose process survived to receive them."""
    answers = [(request, answer.result()) for request, answer in calls if answer.done()]
    errors = {answer["error"]["code"] for _, answer in answers if "error" in answer}
    assert errors <= EXPECTED_ERRORS
    return [(request, answer["result"]) for request, answer in answers if answer.get("result", {}).get("outcome")]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", SEEDS)
async def test_whoever_dies_whenever_nobody_was_told_what_the_log_does_not_say(stage: Stage, seed: int) -> None:
    chaos = Chaos(stage, seed)
    chaos.begin()
    for _ in range(ROUNDS_COUNT):
        chaos.play()
    ended = chaos.end()
    received = told(chaos.calls)
    wrong = [(one, said) for one, said in received if said != ended[one]]
    assert wrong == []
    assert len(received) > ROUNDS_COUNT
    assert {result["outcome"] for result in ended.values()} >= {"allowed", "rejected"}

    async with Ledger.connect(stage.url, entry_points=False) as ledger:
        for session in SESSIONS:
            records = [one async for one in read_events(ledger.store, StreamKey("session", session))]
            assert Auditor().read(records).waiting() == []
    for command in (("verify", "--all"), ("rebuild",), ("rebuild", "--verify")):
        assert stage.run(*command).wait() == 0
