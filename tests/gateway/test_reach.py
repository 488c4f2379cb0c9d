"""Reach of a token: its project, its sessions, its own rules or the gateway's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served, in_process
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings

ALLOW_ALL = [{"permission": "*", "pattern": "*", "action": "allow"}]


@pytest.mark.parametrize(
    "body",
    [
        {"rules": ALLOW_ALL},
        {"rules": {"permission": {"*": "allow"}}},
        {"policy": {"dialect": "opencode", "layers": [{"name": "x", "rules": ALLOW_ALL}]}},
        {"options": {"profile": "faithful"}},
    ],
)
async def test_an_agent_cannot_approve_itself_by_bringing_rules(agent: Caller, body: dict[str, Any]) -> None:
    refused = await agent.put("/v1/sessions/ses_1", body)
    assert (refused.status_code, refused.json()["code"]) == (403, "RULES_NOT_YOURS")
    assert (await agent.get("/v1/sessions/ses_1")).status_code == 404


@pytest.mark.parametrize("body", [{"rules": ALLOW_ALL}, {"answering": "anyone"}, {"dialect": "betcode"}])
async def test_an_agent_cannot_change_a_session_once_it_is_open(agent: Caller, body: dict[str, Any]) -> None:
    await agent.put("/v1/sessions/ses_1", {"answering": "lock-holder"})
    assert (await agent.put("/v1/sessions/ses_1", body)).json()["code"] == "RULES_NOT_YOURS"
    assert (await agent.put("/v1/sessions/ses_1")).status_code == 200


async def test_the_gateway_s_rules_judge_where_an_agent_brings_none(ledger: Ledger, sockets: Path) -> None:
    file = sockets / "opencode.json"
    file.write_text('{"permission": {"bash": {"git status": "allow"}}}')
    settings = GatewaySettings(policies={"opencode": rule_file("opencode", file)})
    async with in_process(ledger, settings) as gateway:
        agent = await gateway.caller("agent")
        assert (await agent.put("/v1/sessions/ses_1", {"project": "shop"})).status_code == 201
        assert (await agent.ask("ses_1", "git status")).json()["outcome"] == "allowed"
        assert (await agent.ask("ses_1", "git push")).status_code == 202


async def test_a_session_out_of_reach_is_one_that_does_not_exist(gateway: Served, admin_caller: Caller) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {"project": "shop"})
    await admin_caller.ask("ses_1", request_id="r1")
    stranger = await gateway.caller("approver", "eve", projects=["bank"])
    for answer in [
        await stranger.get("/v1/sessions/ses_1"),
        await stranger.get("/v1/sessions/ses_1/asks/r1"),
        await stranger.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"}),
        await stranger.get("/v1/sessions/ses_1/log"),
        await stranger.get("/v1/grants?session=ses_1"),
    ]:
        assert (answer.status_code, answer.json()["code"]) == (404, "UNKNOWN_SESSION")
    assert (await stranger.get("/v1/pending")).json() == {"pending": [], "count": 0, "problems": [], "cursor": None}
    assert (await stranger.get("/v1/grants?project=shop")).status_code == 403
    mine = await gateway.caller("approver", "ann", projects=["shop"])
    assert [one["request_id"] for one in (await mine.get("/v1/pending")).json()["pending"]] == ["r1"]


async def test_a_token_of_one_project_opens_sessions_there_and_nowhere_else(gateway: Served) -> None:
    agent = await gateway.caller("agent", projects=["shop"])
    opened = await agent.put("/v1/sessions/ses_1")
    assert (opened.status_code, opened.json()["project"]) == (201, "shop")
    elsewhere = await agent.put("/v1/sessions/ses_2", {"project": "bank"})
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (403, "FORBIDDEN")


async def test_a_token_of_one_session_has_no_say_in_its_project(gateway: Served, admin_caller: Caller) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {"project": "shop"})
    await admin_caller.put("/v1/sessions/ses_2", {"project": "shop"})
    one = await gateway.caller("approver", sessions=["ses_1"])
    assert (await one.get("/v1/sessions/ses_1")).status_code == 200
    assert (await one.get("/v1/sessions/ses_2")).status_code == 404
    body = {"project": "shop", "permission": "bash", "patterns": ["*"]}
    assert (await one.post("/v1/grants", body)).status_code == 403


async def test_nobody_answers_as_somebody_else_s_device(gateway: Served, admin_caller: Caller) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {"answering": "lock-holder"})
    await admin_caller.ask("ses_1", request_id="r1")
    ann, bob = await gateway.caller("approver", "ann"), await gateway.caller("approver", "bob")
    assert (await ann.put("/v1/sessions/ses_1/clients/phone")).json()["lock"] == "phone"
    for answer in [
        await bob.put("/v1/sessions/ses_1/clients/phone"),
        await bob.delete("/v1/sessions/ses_1/clients/phone"),
        await bob.post("/v1/sessions/ses_1/lock/pass", {"client_id": "phone", "to": "desk"}),
        await bob.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once", "client_id": "phone"}),
    ]:
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    without = await bob.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    assert (without.status_code, without.json()["code"]) == (423, "NO_INPUT_LOCK")
    with_lock = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once", "client_id": "phone"})
    assert with_lock.json()["outcome"] == "allowed"
