"""Deadlines while workers, agents and servers are killed."""

from __future__ import annotations

import signal

import pytest

from tests.journeys.processes import Stage, error_of
from tests.support.waiting import wait_until

SES = "ses_1"
SOON = {"attended": 0.4, "unattended": 0.4}
MANY_COUNT = 80


def test_a_third_process_expires_what_a_killed_agent_asked_and_nobody_answered(stage: Stage) -> None:
    agent, observer, heir = stage.players("agent", "observer", "agent")
    stage.expiry()
    agent.do("open", on=SES, timeouts=SOON)
    agent.begin("ask", "bash", ["git push"], on=SES, request_id="r1")
    observer.wait_event(SES, "asked")
    agent.kill9()
    # Reading settles nothing, so the worker settled it.
    observer.wait_event(SES, "expired")
    error = heir.refused("ask", "bash", ["git push"], on=SES, request_id="r1")
    assert (error["code"], error["error"], error["agent"]) == (
        "EXPIRED",
        "Permission request expired after 0.4 seconds.",
        "continue",
    )
    late = heir.refused("reply", "r1", "once", on=SES)
    assert (late["code"], late["error"]) == ("PERMISSION_STALE", "Permission request expired")


@pytest.mark.smoke
def test_an_agent_that_waits_is_told_of_the_expiry(stage: Stage) -> None:
    agent, ann = stage.players("agent", "ann")
    stage.expiry()
    agent.do("open", on=SES, timeouts={"attended": 0.5, "unattended": 60})
    ann.do("connect", "phone", "ann", on=SES)
    error = error_of(agent.begin("ask", "bash", ["git push"], on=SES, request_id="r1"))
    assert error["error"] == "Permission request timed out after 0.5 seconds."


def test_without_any_worker_who_waits_ends_it(stage: Stage) -> None:
    agent = stage.player("agent")
    agent.do("open", on=SES, timeouts=SOON)
    assert agent.refused("ask", "bash", ["git push"], on=SES)["code"] == "EXPIRED"


def test_a_second_worker_goes_on_where_one_was_killed_in_the_midst_of_many(stage: Stage) -> None:
    agent, observer = stage.players("agent", "observer")
    first, second = stage.expiry(), stage.expiry()
    sessions = [f"ses_{number}" for number in range(200)]
    opening = [agent.begin("open", on=one, timeouts={"unattended": 2}) for one in sessions]
    assert all("result" in one.result(20) for one in opening)
    asking = [agent.begin("submit", "bash", ["git push"], on=one, request_id="r") for one in sessions]
    assert all("result" in one.result(20) for one in asking)
    agent.kill9()
    wait_until(lambda: observer.do("due_count") < len(sessions), "the first of them to be settled", 20)
    first.kill9()
    wait_until(lambda: observer.do("due_count") == 0, "all of them to be settled", 20)
    assert [observer.types(one).count("expired") for one in sessions] == [1] * len(sessions)
    assert second.end() == 0


def test_lone_workers_killed_one_after_the_other_expire_each_request_once(stage: Stage) -> None:
    agent, observer = stage.players("agent", "observer")
    sessions = [f"ses_{number}" for number in range(MANY_COUNT)]
    for session in sessions:
        agent.do("open", on=session, timeouts={"unattended": 0.5})
        agent.do("submit", "bash", ["git push"], on=session, request_id="r")
    agent.kill9()
    kills = 0
    while left := observer.do("due_count"):
        worker = stage.expiry()
        wait_until(lambda: observer.do("due_count") < left, "a request more to be settled", 20)
        worker.kill9()
        kills += 1
    assert kills > 0
    assert [observer.types(one).count("expired") for one in sessions] == [1] * MANY_COUNT


def test_a_worker_that_is_started_again_ends_what_fell_due_while_none_ran(stage: Stage) -> None:
    agent, observer = stage.players("agent", "observer")
    agent.do("open", on=SES, timeouts={"unattended": 0.05})
    asked = agent.do("submit", "bash", ["git push"], on=SES, request_id="r1")
    agent.kill9()
    deadline_ms = observer.do("now_ms") + 100
    wait_until(lambda: observer.do("now_ms") > deadline_ms, "the deadline to pass")
    assert (asked["outcome"], observer.types(SES)) == (None, ["session_opened", "asked"])
    worker = stage.expiry()
    observer.wait_event(SES, "expired")
    assert worker.end(signal.SIGINT) == 0


def test_a_nearer_deadline_is_not_kept_waiting_by_a_later_one(stage: Stage) -> None:
    agent, observer = stage.players("agent", "observer")
    stage.expiry()
    agent.do("open", on="ses_later", timeouts={"unattended": 60})
    agent.do("submit", "bash", ["git push"], on="ses_later", request_id="r1")
    agent.do("open", on=SES, timeouts={"unattended": 0.3})
    agent.do("submit", "bash", ["git push"], on=SES, request_id="r1")
    observer.wait_event(SES, "expired")
    assert observer.types("ses_later") == ["session_opened", "asked"]
