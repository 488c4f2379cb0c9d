"""Bounds over HTTP: in answers and in grants, listed, and what a grant let through within the caller's reach."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.callers import Caller, Served

REPLY = "/v1/sessions/ses_1/asks/r1/reply"


@pytest.fixture
async def asked(agent: Caller) -> Caller:
    await agent.put("/v1/sessions/ses_1", {"project": "shop"})
    await agent.ask("ses_1", "git push origin", request_id="r1", always=["git push *"])
    return agent


async def grants(caller: Caller) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await caller.get("/v1/grants?project=shop")).json()["grants"]
    return found


async def test_an_answer_with_bounds_makes_a_grant_with_bounds(asked: Caller, ann: Caller) -> None:
    answered = await ann.post(REPLY, {"reply": "always", "expires": "60m", "uses": 1})
    assert answered.json()["bounds"] == {"expires": "60m", "uses": 1, "patterns": None, "wider": False}
    (made,) = await grants(ann)
    assert (made["uses"], made["uses_left"]) == (1, 1)
    assert (await asked.ask("ses_1", "git push origin", request_id="r2")).json()["outcome"] == "allowed"
    assert (await asked.ask("ses_1", "git push origin", request_id="r3")).status_code == 202
    assert await grants(ann) == []
    used = (await ann.get(f"/v1/grants/{made['grant_id']}/uses")).json()
    assert [(one["request_id"], one["outcome"]) for one in used["uses"]] == [("r2", "allowed")]


async def test_an_edited_pattern_narrows_or_is_marked_as_wider(asked: Caller, ann: Caller) -> None:
    refused = await ann.post(REPLY, {"reply": "always", "patterns": ["npm *"]})
    assert (refused.status_code, refused.json()["code"]) == (422, "NOT_COVERED")
    await ann.post(REPLY, {"reply": "always", "patterns": ["git *"]})
    (made,) = await grants(ann)
    assert (made["pattern"], made["wider"]) == ("git *", True)


@pytest.mark.parametrize(
    "body",
    [
        {"reply": "once", "uses": 1},
        {"reply": "always", "uses": 0},
        {"reply": "always", "uses": 1001},
        {"reply": "always", "expires": "soon"},
        {"reply": "always", "patterns": []},
        {"reply": "always", "patterns": ["x"] * 2 + [f"git push {number}" for number in range(20)]},
    ],
)
async def test_bounds_that_mean_nothing_are_refused(asked: Caller, ann: Caller, body: dict[str, Any]) -> None:
    refused = await ann.post(REPLY, body)
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")
    assert (await asked.get("/v1/sessions/ses_1/asks/r1")).status_code == 202


async def test_a_grant_without_a_request_takes_uses(asked: Caller, ann: Caller) -> None:
    body = {"project": "shop", "permission": "bash", "patterns": ["make *"], "uses": 2, "expires": "1h"}
    (made,) = (await ann.post("/v1/grants", body)).json()["grants"]
    assert (made["uses"], made["uses_left"], made["last_used_at"]) == (2, 2, None)
    refused = await ann.post("/v1/grants", {**body, "uses": 0})
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")


async def test_the_uses_of_a_grant_out_of_reach_are_not_shown(asked: Caller, ann: Caller, gateway: Served) -> None:
    body = {"project": "shop", "permission": "bash", "pattern": "git *", "uses": 2}
    grant = (await ann.post("/v1/grants", body)).json()["grant_id"]
    await asked.ask("ses_1", "git fetch", request_id="r2")
    stranger = await gateway.caller("approver", "eve", projects=["bank"])
    bound = await gateway.caller("approver", "bob", sessions=["ses_1"])
    assert [(await one.get(f"/v1/grants/{grant}/uses")).status_code for one in (ann, stranger, bound, asked)] == [
        200,
        404,
        404,
        403,
    ]
