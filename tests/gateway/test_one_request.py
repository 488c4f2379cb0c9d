"""One request by its id alone: pending, settled, in several sessions, and for whom it does not exist."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.callers import Caller, Served


@pytest.fixture
async def agent(gateway: Served) -> Caller:
    agent = await gateway.caller("agent", "worker", brings_rules=True)
    await agent.put("/v1/sessions/ses_1", {"project": "shop"})
    body = {"tool": "Bash", "input": {"command": "git push"}, "permission": "bash", "patterns": ["git push"]}
    assert (await agent.post("/v1/sessions/ses_1/asks", {**body, "request_id": "r1"})).status_code == 202
    return agent


async def found(caller: Caller, path: str = "r1") -> list[dict[str, Any]]:
    answer = await caller.get(f"/v1/requests/{path}")
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["requests"]
    return rows


async def test_a_pending_request_is_the_row_of_the_inbox(agent: Caller, ann: Caller) -> None:
    (one,) = await found(ann)
    (row,) = (await ann.get("/v1/pending")).json()["pending"]
    assert (one["outcome"], one["request"]) == (None, row)


async def test_a_settled_one_says_what_was_asked_and_what_became_of_it(agent: Caller, ann: Caller) -> None:
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    claim = (await agent.post("/v1/sessions/ses_1/asks/r1/claim", {"runner": {"name": "ci", "call": "r1"}})).json()
    await agent.post("/v1/sessions/ses_1/asks/r1/finish", {"claim_id": claim["claim_id"], "ok": True})
    (one,) = await found(ann)
    assert (one["outcome"], one["by"], one["reply"], one["session"]) == ("allowed", "ann", "once", "ses_1")
    assert (one["claim"]["runner"], one["claim"]["status"], one["ran"]) == ("ci", "finished", True)
    assert one["claim_ended_at"] >= one["claim"]["at"]
    # A settled request keeps no input in the state; the log has it.
    assert one["request"]["input"] == {"command": "git push"}
    assert one["request"]["description"]["sections"]


async def test_a_reopened_one_shows_what_was_asked_last(gateway: Served, agent: Caller, ann: Caller) -> None:
    session = await gateway.ledger.attach("ses_1")
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "reject"})
    (one,) = await found(ann)
    assert one["request"]["version"] == session.stream.state.settled["r1"].request.version


async def test_an_id_that_several_sessions_know_is_chosen_by_its_session(agent: Caller, ann: Caller) -> None:
    await agent.put("/v1/sessions/ses_2", {"project": "shop"})
    await agent.ask("ses_2", "make", request_id="r1")
    assert [one["session"] for one in await found(ann)] == ["ses_1", "ses_2"]
    assert [one["session"] for one in await found(ann, "r1?session=ses_2")] == ["ses_2"]


async def test_an_id_with_a_slash_is_found(agent: Caller, ann: Caller) -> None:
    await agent.ask("ses_1", "make", request_id="ci/42")
    assert [one["request_id"] for one in await found(ann, "ci%2F42")] == ["ci/42"]


@pytest.mark.parametrize("path", ["r9", "r1?session=ses_9", "r1?session=%20", "%20"])
async def test_what_nobody_has_asked_is_no_error_and_no_request(agent: Caller, ann: Caller, path: str) -> None:
    assert await found(ann, path) == []


async def test_out_of_reach_it_is_as_if_it_did_not_exist(agent: Caller, gateway: Served) -> None:
    stranger = await gateway.caller("approver", "zoe", projects=("other",))
    assert await found(stranger) == await found(stranger, "r1?session=ses_1") == []


async def test_an_agent_looks_up_nothing(agent: Caller) -> None:
    assert (await agent.get("/v1/requests/r1")).json()["code"] == "FORBIDDEN"
