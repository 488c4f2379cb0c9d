"""Asks and replies in different processes, any of which may die."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journeys.processes import PlayerProcess, Stage, error_of, result_of
from tests.support.waiting import wait_until

SES = "ses_1"
PUSH: dict[str, Any] = {"request_id": "r1", "always": ["git push *"]}


def opened(player: PlayerProcess, **named: Any) -> PlayerProcess:
    player.do("open", on=SES, **named)
    return player


@pytest.mark.smoke
def test_what_one_process_asks_another_answers(stage: Stage) -> None:
    agent, ann = stage.players("agent", "ann")
    opened(agent)
    asked = agent.begin("ask", "bash", ["git push"], on=SES, **PUSH)
    ann.wait_pending(SES, "r1")
    replied = ann.do("reply", "r1", "once")
    allowed = result_of(asked)
    assert (allowed["outcome"], allowed["reply"], allowed["by"]) == ("allowed", "once", "ann")
    assert allowed == replied


def test_a_retry_of_an_agent_that_was_killed_gets_the_answer_given_meanwhile(stage: Stage) -> None:
    agent, ann, heir = stage.players("agent", "ann", "agent")
    opened(agent).begin("ask", "bash", ["git push"], on=SES, **PUSH)
    ann.wait_pending(SES, "r1")
    agent.kill9()
    ann.do("reply", "r1", "reject", on=SES, message="not on a Friday")
    error = heir.refused("ask", "bash", ["git push"], on=SES, **PUSH)
    assert (error["code"], error["agent"], error["by"]) == ("CORRECTED", "continue", "ann")
    assert ann.types(SES).count("asked") == 1


@pytest.mark.smoke
def test_a_retry_of_an_agent_that_was_killed_attaches_and_waits(stage: Stage) -> None:
    agent, ann, heir = stage.players("agent", "ann", "agent")
    opened(agent).begin("ask", "bash", ["git push"], on=SES, **PUSH)
    ann.wait_pending(SES, "r1")
    agent.kill9()
    again = heir.begin("ask", "bash", ["git push"], on=SES, **PUSH)
    other = heir.refused("ask", "bash", ["git push --force"], on=SES, **PUSH)
    assert other["code"] == "DIFFERENT_REQUEST"
    assert not again.done()
    ann.do("reply", "r1", "always", on=SES)
    assert result_of(again)["reply"] == "always"
    assert ann.types(SES).count("asked") == 1


def test_of_two_replies_at_the_same_moment_one_counts_and_the_other_is_told(stage: Stage) -> None:
    agent, ann, bob = stage.players("agent", "ann", "bob")
    requests = [f"r{number}" for number in range(25)]
    opened(agent, cascade_reject="none")
    asked = {one: agent.begin("ask", "bash", [f"git push {one}"], on=SES, request_id=one) for one in requests}
    ann.wait_pending(SES, *requests)
    bob.wait_pending(SES, *requests)
    replies = {
        one: [ann.begin("reply", one, "once", on=SES), bob.begin("reply", one, "reject", on=SES)] for one in requests
    }
    for one in requests:
        answers = [reply.result(20) for reply in replies[one]]
        (won,) = [answer["result"] for answer in answers if "result" in answer]
        (lost,) = [answer["error"] for answer in answers if "error" in answer]
        assert (lost["code"], lost["by"]) == ("ALREADY_ANSWERED", won["by"])
        asker = asked[one].result(20)
        assert (asker.get("result") or asker["error"])["by"] == won["by"]
        assert ("result" in asker) == (won["outcome"] == "allowed")
    assert ann.types(SES).count("replied") == len(requests)


def test_a_person_who_is_killed_while_replying_leaves_an_answer_or_none_but_never_two(stage: Stage) -> None:
    agent, ann, *killed = stage.players("agent", "ann", "bob", "bob", "bob")
    requests = ["r0", "r1", "r2"]
    opened(agent, cascade_reject="none")
    asked = {one: agent.begin("ask", "bash", [f"git push {one}"], on=SES, request_id=one) for one in requests}
    ann.wait_pending(SES, *requests)
    at_once, when_told, when_written = killed
    at_once.begin("reply", "r0", "once", on=SES)
    at_once.kill9()
    when_told.do("reply", "r1", "once", on=SES)
    when_told.kill9()
    written = ann.types(SES).count("replied")
    when_written.begin("reply", "r2", "once", on=SES)
    ann.wait_event(SES, "replied", count=written + 1)
    when_written.kill9()
    for one in requests:
        answer = ann.begin("reply", one, "reject", on=SES).result(20)
        asker = asked[one].result(20)
        if "result" in answer:
            assert error_of(asked[one])["by"] == "ann"
        else:
            assert (answer["error"]["code"], asker["result"]["by"]) == ("ALREADY_ANSWERED", "bob")
    assert ann.types(SES).count("replied") == len(requests)


def test_a_project_grant_is_completed_although_the_person_was_killed_right_after_replying(stage: Stage) -> None:
    agent, ann, bob = stage.players("agent", "ann", "bob")
    opened(agent, project="shop").begin("ask", "bash", ["git push"], on=SES, **PUSH)
    ann.wait_pending(SES, "r1")
    bob.begin("reply", "r1", "always", on=SES)
    ann.wait_event(SES, "replied")
    bob.kill9()
    stage.run("worker", "projector")
    wait_until(lambda: ann.do("approved_in_project", "shop"), "the grant in the project's stream")
    agent.do("open", on="ses_2", project="shop")
    assert agent.do("ask", "bash", ["git push --tags"], on="ses_2")["outcome"] == "allowed"
    assert [one["pattern"] for one in ann.do("approved_in_project", "shop")] == ["git push *"]
