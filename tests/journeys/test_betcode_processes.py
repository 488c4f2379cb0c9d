"""BetCode's scenarios with agent, clients and expiry worker in processes of their own, and short durations.

60 s and 7 days are shortened, and with them every time in a scenario; all scenarios run at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import pytest

from ledger.stores.embedded import stop
from tests.api.test_betcode_scenarios import SCENARIOS, Row, decisions
from tests.journeys.processes import PlayerProcess, Stage
from tests.support.waiting import wait_until

ATTENDED_S: Final = 60
UNATTENDED_S: Final = 7 * 86_400
SHORT_ATTENDED_S: Final = 4.0
SHORT_UNATTENDED_S: Final = 10.0

TEXTS: Final = {
    "Permission request timed out after 60 seconds.": "Permission request timed out after 4 seconds.",
    "Permission request expired after 7 days.": "Permission request expired after 10 seconds.",
}


def shrunk(seconds: float) -> float:
    """Return a scenario's time in this test: up to the attended deadline scaled by that one, else by the other."""
    if seconds <= 2 * ATTENDED_S:
        return seconds * SHORT_ATTENDED_S / ATTENDED_S
    return seconds * SHORT_UNATTENDED_S / UNATTENDED_S


def wait_until_time(at_s: float) -> None:
    wait_until(lambda: time.time() >= at_s, "the time of a step", 20)


class Played:
    """One scenario that was run."""

    def __init__(self, scenario: Row, agent: PlayerProcess, clients: dict[str, PlayerProcess]) -> None:
        self.scenario = scenario
        self.session = f"ses_{scenario['id']}"
        self.agent = agent
        self.clients = clients
        self.asking: dict[str, Future[Row]] = {}
        self.answers: list[Any] = []
        self.shown_again: list[str] = []

    def live_through(self) -> Played:
        given = self.scenario["given"]
        self.agent.do(
            "open",
            on=self.session,
            rules=given.get("as", []),
            answering=given.get("answering", "lock-holder"),
            cascade_reject="none",
            timeouts={"attended": SHORT_ATTENDED_S, "unattended": SHORT_UNATTENDED_S},
        )
        for grant in given.get("grants", ()):
            self.agent.do("grant", grant["permission"], grant["pattern"], on=self.session)
        for client in given["clients"]:
            self.connect(client)
        for step in self.scenario["steps"]:
            if "at_s" in step and self.asking:
                wait_until_time(self.first_asked_s() + shrunk(step["at_s"]))
            self.step(step)
        self.check_all()
        return self

    def connect(self, client: str) -> None:
        replayed = self.clients[client].do("connect", client, f"person at {client}", on=self.session)
        assert all(one["is_replay"] for one in replayed)
        self.shown_again = [one["request_id"] for one in replayed]

    def step(self, step: Row) -> None:
        match step["do"]:
            case "ask":
                self.ask(step)
            case "malformed_ask":
                self.take_answer(self.agent.begin("ask", "", ["*"], on=self.session, request_id="not an id"))
            case "connect":
                self.connect(step["client"])
            case "disconnect":
                self.clients[step["client"]].do("disconnect", step["client"], on=self.session)
            case "reply":
                self.take_answer(self.begin_reply(step["client"], step["request"], step["word"]))
            case "two_replies":
                words = zip(step["clients"], step["words"], strict=True)
                for reply in [self.begin_reply(client, step["request"], word) for client, word in words]:
                    self.take_answer(reply)
            case "wait":
                pass
            case other:
                raise AssertionError(other)

    def begin_reply(self, client: str, request_id: str, word: str) -> Future[Row]:
        return self.clients[client].begin("reply_as", client, request_id, word, on=self.session)

    def ask(self, step: Row) -> None:
        request_id = step["request"]
        self.asking[request_id] = self.agent.begin(
            "ask",
            step["tool"],
            step["patterns"],
            on=self.session,
            request_id=request_id,
            always=step.get("always", []),
            tool_name=step["tool"],
            tool_input=step.get("input"),
        )
        wait_until(lambda: [one for one in self.asked() if one["request_id"] == request_id], "the ask in the log", 20)

    def take_answer(self, answer: Future[Row]) -> None:
        told = answer.result(20)
        error = told.get("error")
        self.answers.append({"code": error["code"], "message": error["error"]} if error else told["result"]["outcome"])

    # --- the contents of the log -----------------------------------------------------------------------------------

    def log(self) -> list[Row]:
        return [event["event"] for event in self.agent.do("events", on=self.session)]

    def asked(self) -> list[Row]:
        return [event for event in self.log() if event["type"] == "asked"]

    def first_asked_s(self) -> float:
        """Return when the first request was asked, in seconds since 1970, by the log: a deadline counts from there.

        The call before it takes as long as a busy machine makes it, which would bring a late answer forward.
        """
        rows = self.agent.do("events", on=self.session)
        asked_ms = next(int(row["id"].partition("-")[0]) for row in rows if row["event"]["type"] == "asked")
        return asked_ms / 1000

    def result(self, request_id: str) -> Row:
        result: Row = self.agent.do("result", request_id, on=self.session)
        return result

    # --- what is expected -------------------------------------------------------------------------------------------

    def check_all(self) -> None:
        for expected in self.scenario["expect"]:
            getattr(self, f"check_{expected['that']}")(expected)

    def check_told(self, expected: Row) -> None:
        request_id = expected["request"]
        told = self.asking[request_id].result(20)
        assert ("error" in told) == (expected["behavior"] == "deny")
        if "message" in expected:
            differs = self.scenario.get("differs", {}).get("message", {}).get("here", expected["message"])
            assert told["error"]["error"] == TEXTS.get(differs, differs)
        events = [
            one for one in self.agent.do("events", on=self.session) if one["event"].get("request_id") == request_id
        ]
        if "at_s" in expected:
            asked_ms, ended_ms = (int(events[index]["id"].partition("-")[0]) for index in (0, -1))
            due_ms = shrunk(expected["at_s"]) * 1000
            assert [one["event"]["type"] for one in events] == ["asked", "expired"], "its deadline was moved"
            assert events[0]["event"]["duration_ms"] == due_ms
            assert ended_ms - asked_ms >= due_ms
        if expected.get("once"):
            assert len(events) == 2

    def check_not_told(self, expected: Row) -> None:
        assert not self.asking[expected["request"]].done()

    def check_shown(self, expected: Row) -> None:
        if expected.get("replay"):
            assert self.shown_again == expected["requests"]
        else:
            assert [one["request_id"] for one in self.asked() if one["verdict"] == "ask"] == expected["requests"]

    def check_pending(self, expected: Row) -> None:
        pending = self.agent.do("pending", on=self.session)
        assert [one["request_id"] for one in pending] == expected["requests"]

    def check_to_be_pushed(self, expected: Row) -> None:
        (asked,) = self.asked()
        assert (asked["tier"], asked.get("present", [])) == ("unattended", [])

    def check_timeouts(self, expected: Row) -> None:
        assert [one["type"] for one in self.log()].count("expired") == expected["count"]

    def check_decisions(self, expected: Row) -> None:
        assert decisions(self.log()) == expected["counted"]

    def check_granted(self, expected: Row) -> None:
        granted = self.clients["c1"].do("approved", on=self.session)
        names = ("scope", "permission", "pattern", "action")
        assert [{name: one[name] for name in names} for one in granted] == expected["grants"]

    def check_logged(self, expected: Row) -> None:
        self.clients["c1"].wait_for_word(expected["text"])

    def check_answered(self, expected: Row) -> None:
        wanted = expected["results"]
        assert len(self.answers) == len(wanted)
        like = [
            {name: got[name] for name in want} if isinstance(want, dict) else got
            for got, want in zip(self.answers, wanted, strict=True)
        ]
        assert like == wanted

    def check_first_wins(self, expected: Row) -> None:
        result = self.result(expected["request"])
        (refused,) = [answer["code"] for answer in self.answers if isinstance(answer, dict)]
        assert refused == "ALREADY_ANSWERED"
        assert result["outcome"] in self.answers


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Played]]]:
    """Every scenario, run in a session of its own, all on one ledger at the same time."""
    stage = Stage(tmp_path_factory.mktemp("betcode") / "data")
    try:
        agent, c1, c2 = stage.players("agent", "c1", "c2")
        stage.expiry()
        with ThreadPoolExecutor(len(SCENARIOS)) as pool:
            clients = {"c1": c1, "c2": c2}
            playing = {one["id"]: pool.submit(Played(one, agent, clients).live_through) for one in SCENARIOS}
        yield playing
    finally:
        stage.close()
        stop(stage.folder.path)


@pytest.mark.parametrize("scenario", [scenario["id"] for scenario in SCENARIOS])
def test_a_scenario_of_betcode_goes_as_it_says_between_processes(
    scenario: str, played: dict[str, Future[Played]]
) -> None:
    played[scenario].result()
