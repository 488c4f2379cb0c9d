"""A server killed while processes use it."""

from __future__ import annotations

import pytest

from tests.journeys.processes import Stage, result_of
from tests.support.waiting import wait_until

SES = "ses_1"


@pytest.mark.smoke
def test_agents_that_wait_get_their_answers_although_the_server_was_killed(stage: Stage) -> None:
    agent, ann = stage.players("agent", "ann")
    requests = [f"r{number}" for number in range(20)]
    agent.do("open", on=SES)
    asked = [agent.begin("ask", "bash", [f"git push {one}"], on=SES, request_id=one) for one in requests]
    ann.wait_pending(SES, *requests)
    dead = stage.kill_server()
    replies = [ann.begin("reply", one, "once", on=SES) for one in requests]
    assert [result_of(one)["outcome"] for one in replies] == ["allowed"] * len(requests)
    assert [result_of(one)["by"] for one in asked] == ["ann"] * len(requests)
    assert stage.folder.pid() not in (None, dead)
    assert ann.types(SES).count("replied") == len(requests)


def test_a_deadline_passes_as_it_should_although_the_server_was_killed(stage: Stage) -> None:
    agent, observer = stage.players("agent", "observer")
    worker = stage.expiry()
    agent.do("open", on=SES, timeouts={"unattended": 1})
    agent.do("submit", "bash", ["git push"], on=SES, request_id="r1")
    agent.kill9()
    stage.kill_server()
    wait_until(lambda: "expired" in observer.types(SES), "the expiry", 20)
    assert observer.types(SES).count("expired") == 1
    assert worker.is_running
