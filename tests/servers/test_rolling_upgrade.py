"""Two versions on one server, as during an upgrade without downtime: two wheels, their processes side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import sha1
from typing import TYPE_CHECKING, Any, Final

import pytest
import redis

from tests.journeys.processes import PlayerProcess, Process, error_of, result_of
from tests.servers.builds import LATER, Build, build
from tests.support.servers import RealServer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.servers import StartServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

REQUESTS_COUNT: Final = 60


class Team:
    """The processes of one version."""

    def __init__(self, build: Build, server: RealServer) -> None:
        self.build = build
        self._url = server.url
        self._processes: list[Process] = []

    def player(self, actor: str) -> PlayerProcess:
        player = PlayerProcess(self._url, actor, self.build.environment)
        self._processes.append(player)
        player.ready()
        assert player.do("imported_from") == str(self.build.folder)
        return player

    def worker(self, name: str, word: str) -> Process:
        """Start a worker, and wait until it has printed this word."""
        worker = self._started("worker", name, "--log-level", "info")
        worker.wait_for_word(word)
        return worker

    def run(self, *words: str) -> tuple[int, list[Any]]:
        """Run a command; return its exit code and rows."""
        process = self._started(*words, "--json")
        code = process.wait()
        return code, [json.loads(line) for line in process.said]

    def _started(self, *words: str) -> Process:
        process = Process(["-m", "workers.cli", *words, "--url", self._url], self.build.environment)
        self._processes.append(process)
        return process

    def leave(self) -> None:
        """End every process of this version."""
        for process in self._processes:
            process.close()


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, Build]:
    return build(tmp_path_factory.mktemp("today")), build(tmp_path_factory.mktemp("later"), LATER)


@pytest.fixture
def server(start_server: StartServer) -> RealServer:
    return start_server()


@pytest.fixture
def teams(builds: tuple[Build, Build], server: RealServer) -> Iterator[tuple[Team, Team]]:
    """The version in use, and the one it is upgraded to."""
    teams = (Team(builds[0], server), Team(builds[1], server))
    yield teams
    for team in teams:
        team.leave()


def script_hashes(teams: tuple[Team, Team], name: str) -> list[str]:
    return [sha1(team.build.script(name).encode()).hexdigest() for team in teams]


def test_two_versions_answer_the_same_requests_and_each_has_one_outcome(
    teams: tuple[Team, Team], server: RealServer
) -> None:
    old, new = (team.player(name) for team, name in zip(teams, ("old", "new"), strict=True))
    requests = [f"r{number}" for number in range(REQUESTS_COUNT)]
    old.do("open", on="ses_1", cascade_reject="none")
    asked = [
        (old, new)[index % 2].begin("submit", "bash", [one], on="ses_1", request_id=one)
        for index, one in enumerate(requests)
    ]
    assert [result_of(one)["outcome"] for one in asked] == [None] * REQUESTS_COUNT
    with redis.Redis.from_url(server.url) as client:
        client.script_flush()
    answers = [
        (one, old.begin("reply", one, "once", on="ses_1"), new.begin("reply", one, "reject", on="ses_1"))
        for one in requests
    ]
    for one, allowed, rejected in answers:
        told = [answer.result(20) for answer in (allowed, rejected)]
        assert sorted("error" in answer for answer in told) == [False, True], (one, told)
        assert [answer["error"]["code"] for answer in told if "error" in answer] == ["ALREADY_ANSWERED"]
    assert Counter(event["type"] for event in new.do("events", on="ses_1")) == {
        "session_opened": 1,
        "asked": REQUESTS_COUNT,
        "replied": REQUESTS_COUNT,
    }
    with redis.Redis.from_url(server.url) as client:
        assert client.script_exists(*script_hashes(teams, "append.lua")) == [True, True]
    for team in teams:
        code, rows = team.run("verify", "--all")
        assert (code, [row["problems"] for row in rows]) == (0, [[], []])


def test_what_only_the_newer_version_understands_keeps_older_workers_from_that_session_alone(
    teams: tuple[Team, Team],
) -> None:
    today, later = teams
    old, new = today.player("old"), later.player("new")
    for session in ("plain", "changed"):
        old.do("open", on=session)
        old.do("submit", "bash", ["make"], on=session, request_id="waited-for")
    old.do("submit", "bash", ["rm"], on="changed", request_id="withdrawn")
    waiting = {session: old.begin("wait", "waited-for", on=session) for session in ("plain", "changed")}

    new.do("cancel", "withdrawn", on="changed")
    refusal = error_of(waiting["changed"])
    assert refusal["code"] == "NEWER_SCHEMA"
    assert "session `changed` holds events of a newer version; upgrade this worker" in json.dumps(refusal)
    for refused in (
        old.refused("submit", "bash", ["make"], on="changed", request_id="another"),
        old.refused("reply", "waited-for", "once", on="changed"),
        old.refused("close", on="changed"),
    ):
        assert refused["code"] == "NEWER_SCHEMA"
    # It is stored and shown unchanged, and is a link of the chain.
    assert old.types("changed") == ["session_opened", "asked", "asked", "cancelled"]
    code, [row, *_] = today.run("verify", "changed")
    assert (code, [problem["kind"] for problem in row["problems"]]) == (11, ["newer"])

    new.do("reply", "waited-for", "once", on="plain")
    assert result_of(waiting["plain"])["outcome"] == "allowed"
    new.do("reply", "waited-for", "once", on="changed")

    # That process is upgraded: the same request again, by the new version.
    old.kill9()
    heir = later.player("heir")
    assert heir.do("ask", "bash", ["make"], on="changed", request_id="waited-for")["outcome"] == "allowed"
    assert later.run("verify", "--all")[0] == 0


def test_workers_of_the_older_version_pass_such_a_session_over_and_newer_ones_do_their_work(
    teams: tuple[Team, Team],
) -> None:
    today, later = teams
    old, new = today.player("old"), later.player("new")
    expiry = today.worker("expiry", "subscribed to")
    projector = today.worker("projector", "consumer group")
    for session in ("plain", "changed"):
        old.do("open", on=session, timeouts={"unattended": 2})
        old.do("submit", "bash", ["make"], on=session, request_id="expires")
    old.do("submit", "bash", ["rm"], on="changed", request_id="withdrawn")
    new.do("cancel", "withdrawn", on="changed")

    old.wait_event("plain", "expired")
    expiry.wait_for_word("skipping session `changed`")
    projector.wait_for_word("holds events of a newer version")
    assert new.types("changed").count("expired") == 0

    later.worker("expiry", "subscribed to")
    later.worker("projector", "consumer group")
    new.wait_event("changed", "expired")

    def views() -> dict[str, int]:
        code, rows = later.run("sessions")
        assert code == 0
        return {row["session"]: row["version"] for row in rows}

    wait_until(lambda: views() == {"plain": 3, "changed": 5}, "the views of both sessions")
    today.leave()
    code, rows = later.run("rebuild", "--verify")
    assert (code, [row for row in rows if not row["same"]]) == (0, [])
