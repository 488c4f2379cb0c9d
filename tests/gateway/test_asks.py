"""Asking, waiting and answering over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledger import Ledger
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served
from tests.support.waiting import wait_until_async

RULES = [
    {"permission": "bash", "pattern": "ls*", "action": "allow"},
    {"permission": "bash", "pattern": "rm*", "action": "deny"},
]


@pytest.fixture
async def opened(gateway: Served) -> Caller:
    """An agent that has opened `ses_1` of project `shop` with rules of its own."""
    agent = await gateway.caller("agent", "worker", brings_rules=True)
    assert (await agent.put("/v1/sessions/ses_1", {"project": "shop", "rules": RULES})).status_code == 201
    return agent


async def test_opening_again_attaches(opened: Caller) -> None:
    again = await opened.put("/v1/sessions/ses_1")
    assert (again.status_code, again.json()["version"], again.json()["project"]) == (200, 1, "shop")


async def test_opening_closing_and_withdrawing_need_no_body(opened: Caller) -> None:
    answers = [
        await opened.http.put("/v1/sessions/ses_1"),
        await opened.ask("ses_1", request_id="r1"),
        await opened.http.post("/v1/sessions/ses_1/asks/r1/cancel"),
        await opened.http.post("/v1/sessions/ses_1/close"),
    ]
    assert [one.status_code for one in answers] == [200, 202, 200, 200]


async def test_codelias_confirm_result_may_be_the_body_of_an_answer(opened: Caller, ann: Caller) -> None:
    for request_id, body, outcome in (
        ("r1", {"ok": True}, "allowed"),
        ("r2", {"ok": False, "remember": False, "reason": "use rg"}, "corrected"),
        ("r3", {"ok": False}, "rejected"),
    ):
        await opened.ask("ses_1", request_id=request_id)
        answer = await ann.post(f"/v1/sessions/ses_1/asks/{request_id}/reply", body)
        assert (answer.status_code, answer.json()["outcome"]) == (200, outcome)


async def test_an_answer_said_twice_in_one_body_decides_nothing(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", request_id="r1")
    answer = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once", "ok": False})
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "give `reply`, or Codelia's `ok`, `remember` and `reason`, not both",
    )
    assert (await opened.get("/v1/sessions/ses_1/asks/r1")).json()["outcome"] is None


async def test_a_grant_of_one_pattern_is_answered_with_that_grant(opened: Caller, ann: Caller) -> None:
    made = await ann.post("/v1/grants", {"project": "shop", "permission": "bash", "pattern": "make *"})
    assert (made.status_code, made.json()["pattern"]) == (201, "make *")
    assert (await ann.get("/v1/grants?project=shop")).json() == {"grants": [made.json()]}


@pytest.mark.parametrize(("pattern", "outcome", "code"), [("ls -l", "allowed", None), ("rm x", "denied", "DENIED")])
async def test_what_rules_decide_is_settled_at_once(
    opened: Caller, pattern: str, outcome: str, code: str | None
) -> None:
    answer = await opened.ask("ses_1", pattern)
    assert answer.status_code == 200
    assert (answer.json()["outcome"], answer.json()["code"]) == (outcome, code)


async def test_what_a_person_must_answer_is_accepted_and_can_be_attached_to(opened: Caller, ann: Caller) -> None:
    asked = await opened.ask("ses_1", request_id="r1")
    assert (asked.status_code, asked.json()["outcome"]) == (202, None)
    assert asked.headers["location"] == "/v1/sessions/ses_1/asks/r1"
    waiting = asyncio.create_task(opened.get("/v1/sessions/ses_1/asks/r1?wait=20"))
    replied = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    assert (replied.status_code, replied.json()["by"]) == (200, "ann")
    settled = await waiting
    assert (settled.status_code, settled.json()["outcome"], settled.json()["by"]) == (200, "allowed", "ann")


async def test_a_request_whose_time_is_over_is_expired_for_who_looks_also_without_a_worker(
    opened: Caller, clock: TestClock
) -> None:
    await opened.ask("ses_1", request_id="r1")
    clock.advance("7d")
    answer = await opened.get("/v1/sessions/ses_1/asks/r1")
    assert (answer.status_code, answer.json()["outcome"], answer.json()["message"]) == (
        200,
        "expired",
        "Permission request expired after 7 days.",
    )


async def test_an_ask_that_waits_returns_with_the_answer(opened: Caller, ann: Caller) -> None:
    asking = asyncio.create_task(opened.post("/v1/sessions/ses_1/asks?wait=20", ask_body("r1")))

    async def pending() -> bool:
        return len((await ann.get("/v1/pending")).json()["pending"]) == 1

    await wait_until_async(pending, "the request to be pending")
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "reject", "message": "use pnpm"})
    answer = (await asking).json()
    assert (answer["outcome"], answer["code"], answer["agent"]) == ("corrected", "CORRECTED", "continue")
    assert "use pnpm" in answer["message"]


async def test_waiting_ends_with_its_time_and_changes_nothing(opened: Caller) -> None:
    asked = await opened.post("/v1/sessions/ses_1/asks?wait=0.05", ask_body("r1"))
    assert (asked.status_code, asked.json()["version"]) == (202, 2)


async def test_the_same_answer_again_succeeds_and_another_is_told_who_was_first(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", request_id="r1")
    for _ in range(2):
        assert (await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})).status_code == 200
    other = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "reject"})
    assert other.status_code == 409
    problem = other.json()
    assert (problem["code"], problem["by"], problem["reply"]) == ("ALREADY_ANSWERED", "ann", "once")


async def test_an_answer_after_the_deadline_is_gone(opened: Caller, ann: Caller, gateway: Served, clock: Any) -> None:
    await opened.ask("ses_1", request_id="r1")
    clock.advance("8d")
    late = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    assert (late.status_code, late.json()["code"]) == (410, "PERMISSION_STALE")


async def test_an_answer_counts_only_for_what_was_shown(opened: Caller, ann: Caller) -> None:
    shown = (await opened.ask("ses_1", request_id="r1")).json()["request"]["digest"]
    wrong = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once", "digest": "0" * 64})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "DIGEST_MISMATCH")
    right = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once", "digest": shown})
    assert right.status_code == 200


async def test_a_person_may_correct_the_input_of_a_tool_call(opened: Caller, ann: Caller) -> None:
    asked = await opened.post(
        "/v1/sessions/ses_1/asks", {"tool_name": "bash", "input": {"command": "git push"}, "request_id": "r1"}
    )
    assert asked.status_code == 202
    edited = {"reply": "once", "updated_input": {"command": "git push --dry-run"}}
    replied = await ann.post("/v1/sessions/ses_1/asks/r1/reply", edited)
    assert replied.status_code == 200
    settled = (await opened.get("/v1/sessions/ses_1/asks/r1")).json()
    assert (settled["outcome"], settled["updated_input"]) == ("allowed", {"command": "git push --dry-run"})
    assert (await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})).status_code == 409


async def test_an_always_that_an_agent_records_reaches_its_own_session_only(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", request_id="r1", always=["git push *"])
    done = await opened.post("/v1/sessions/ses_1/asks/r1/answered", {"reply": "always", "prompt": "codex"})
    assert (done.json()["outcome"], done.json()["reply"]) == ("allowed", "session")
    assert (await ann.get("/v1/grants?project=shop")).json() == {"grants": []}
    assert (await opened.ask("ses_1", "git push again")).json()["outcome"] == "allowed"


async def test_a_tool_may_be_named_as_in_a_policy_check(opened: Caller) -> None:
    answer = await opened.post("/v1/sessions/ses_1/asks", {"tool": "bash", "input": {"command": "ls -l"}})
    assert (answer.json()["outcome"], answer.json()["request"]["tool_name"]) == ("allowed", "bash")
    two_names = {"tool": "bash", "tool_name": "edit", "input": {"command": "ls"}}
    assert (await opened.post("/v1/sessions/ses_1/asks", two_names)).status_code == 422


async def test_a_corrected_input_makes_no_grant(opened: Caller, ann: Caller) -> None:
    await opened.post("/v1/sessions/ses_1/asks", {"tool_name": "bash", "input": {"command": "x"}, "request_id": "r1"})
    edited = {"reply": "always", "updated_input": {"command": "y"}}
    refused = await ann.post("/v1/sessions/ses_1/asks/r1/reply", edited)
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")


async def test_what_ran_is_compared_with_what_was_asked_or_corrected(opened: Caller, ann: Caller) -> None:
    await opened.post("/v1/sessions/ses_1/asks", {"tool_name": "bash", "input": {"command": "x"}, "request_id": "r1"})
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once", "updated_input": {"command": "y"}})
    for command in ("x", "y"):
        body = {"request_id": "r1", "input": {"command": command}}
        assert (await opened.post("/v1/sessions/ses_1/tools-finished", body)).status_code == 204
    events = (await ann.get("/v1/sessions/ses_1/log")).json()["events"]
    finished = [one["event"]["as_asked"] for one in events if one["type"] == "tool_finished"]
    assert finished == [False, True]


async def test_a_cancelled_request_is_settled_so(opened: Caller) -> None:
    await opened.ask("ses_1", request_id="r1")
    cancelled = await opened.post("/v1/sessions/ses_1/asks/r1/cancel", {"cause": "asker_died", "reason": "killed"})
    assert (cancelled.status_code, cancelled.json()["outcome"]) == (200, "cancelled")


async def test_the_actor_is_the_token_s_and_never_a_field_of_the_request(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", request_id="r1", agent="the pope")
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    events = (await ann.get("/v1/sessions/ses_1/log")).json()["events"]
    worker, answerer = [(await one.get("/v1/me")).json()["token_id"] for one in (opened, ann)]
    assert [one["actor"] for one in events] == [
        {"kind": "agent", "name": "worker", "via": "gateway", "token_id": worker},
        {"kind": "agent", "name": "worker", "via": "gateway", "token_id": worker},
        {"kind": "person", "name": "ann", "via": "gateway", "token_id": answerer},
    ]


async def test_external_directories_are_asked_about_first(opened: Caller, ann: Caller) -> None:
    body = {"tool_name": "bash", "input": {"command": "cat /etc/hosts"}, "request_id": "r1", "cwd": "/home/me/project"}
    first = (await opened.post("/v1/sessions/ses_1/asks", body)).json()
    assert (first["outcome"], first["request"]["permission"]) == (None, "external_directory")
    await ann.post(f"/v1/sessions/ses_1/asks/{first['request_id']}/reply", {"reply": "once"})
    again = (await opened.post("/v1/sessions/ses_1/asks", body)).json()
    assert (again["request_id"], again["outcome"], again["request"]["permission"]) == ("r1", None, "bash")


async def test_the_folder_of_the_call_is_in_every_row_and_binds_the_request(opened: Caller, ann: Caller) -> None:
    body = {"permission": "bash", "patterns": ["make deploy"], "request_id": "r1", "cwd": "/srv/scratch"}
    asked = (await opened.post("/v1/sessions/ses_1/asks", body)).json()
    [pending] = (await ann.get("/v1/pending")).json()["pending"]
    assert (asked["request"]["cwd"], pending["cwd"]) == ("/srv/scratch", "/srv/scratch")
    other = await opened.post("/v1/sessions/ses_1/asks", {**body, "cwd": "/srv/production"})
    assert (other.status_code, other.json()["code"]) == (409, "DIFFERENT_REQUEST")


def ask_body(request_id: str) -> dict[str, Any]:
    return {"permission": "bash", "patterns": ["git push"], "request_id": request_id}


async def test_an_answer_given_at_the_agents_own_prompt_is_recorded_as_told(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", request_id="r1")
    done = await opened.post("/v1/sessions/ses_1/asks/r1/answered", {"reply": "once", "prompt": "opencode"})
    assert (done.status_code, done.json()["outcome"], done.json()["by"]) == (200, "allowed", "worker")
    events = (await ann.get("/v1/sessions/ses_1/log")).json()["events"]
    assert (events[-1]["actor"]["kind"], events[-1]["actor"]["via"]) == ("agent", "told")
    assert events[-1]["event"]["told"] == "opencode"


async def test_an_agent_that_brings_no_rules_records_no_answers(agent: Caller) -> None:
    await agent.put("/v1/sessions/own")
    await agent.ask("own", request_id="r1")
    refused = await agent.post("/v1/sessions/own/asks/r1/answered", {"reply": "once", "prompt": "opencode"})
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert (await agent.get("/v1/sessions/own/asks/r1")).json()["outcome"] is None


async def test_the_row_of_a_correction_has_the_persons_own_words(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", "git push", request_id="r1")
    await opened.ask("ses_1", "git pull", request_id="r2")
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "reject", "message": "use pnpm"})
    rows = [(await opened.get(f"/v1/sessions/ses_1/asks/{one}")).json() for one in ("r1", "r2")]
    assert [(row["feedback"], row["cause"]) for row in rows] == [
        ("use pnpm", None),
        (None, {"kind": "cascade", "request_id": "r1"}),
    ]


@pytest.mark.parametrize("how", ["read", "read and wait", "ask again"])
async def test_a_release_by_a_grant_that_was_revoked_is_told_to_no_bridge(
    opened: Caller, ann: Caller, ledger: Ledger, how: str
) -> None:
    await ledger.session("ses_1", cascade_always="project")
    await opened.ask("ses_1", request_id="r1")
    made = (await ann.post("/v1/grants", {"project": "shop", "permission": "bash", "pattern": "git *"})).json()
    assert (await opened.get("/v1/sessions/ses_1/asks/r1")).json()["outcome"] == "allowed"
    await ann.delete(f"/v1/grants/{made['grant_id']}")
    match how:
        case "read":
            told = await opened.get("/v1/sessions/ses_1/asks/r1")
        case "read and wait":
            told = await opened.get("/v1/sessions/ses_1/asks/r1?wait=0.05")
        case _:
            told = await opened.ask("ses_1", request_id="r1")
    assert (told.status_code, told.json()["outcome"]) == (202, None)
    row = (await ann.get("/v1/pending")).json()["pending"][0]
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once", "digest": row["digest"]})
    assert (await opened.get("/v1/sessions/ses_1/asks/r1")).json()["by"] == "ann"


async def test_the_section_of_the_agent_that_asks_counts(gateway: Served) -> None:
    own = await gateway.caller("agent", "own", brings_rules=True)
    sections = {"plan": {"permission": {"bash": "deny"}}, "build": {"permission": {"bash": "allow"}}}
    rules = {"permission": {"bash": "ask"}, "agent": sections}
    await own.put("/v1/sessions/ses_1", {"rules": rules, "agent": "plan"})
    outcomes = [(await own.ask("ses_1", **more)).json()["outcome"] for more in ({}, {"agent": "build"}, {"agent": "x"})]
    assert outcomes == ["denied", "allowed", None]
    tool = {"tool_name": "bash", "input": {"command": "make"}, "agent": "build"}
    assert (await own.post("/v1/sessions/ses_1/asks", tool)).json()["outcome"] == "allowed"
