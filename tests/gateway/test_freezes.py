"""Freezes over HTTP: who may freeze and unfreeze what, and what everybody else is told."""

from __future__ import annotations

import pytest

from tests.gateway.callers import Caller, Served

ALLOW = [{"permission": "bash", "pattern": "*", "action": "allow"}]


@pytest.fixture
async def worker(gateway: Served) -> Caller:
    """An agent with a session of project `shop` whose rules allow everything."""
    worker = await gateway.caller("agent", "worker", brings_rules=True)
    await worker.put("/v1/sessions/ses_1", {"project": "shop", "rules": ALLOW})
    return worker


async def test_a_frozen_agent_waits_and_a_yes_is_423_with_who_when_and_why(
    gateway: Served, worker: Caller, ann: Caller
) -> None:
    frozen = await ann.post("/v1/freeze", {"reason": "a leak", "project": "shop"})
    assert frozen.status_code == 200, frozen.text
    asked = await worker.ask("ses_1", request_id="r1")
    assert asked.status_code == 202
    refused = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    assert refused.status_code == 423
    problem = refused.json()
    assert {name: problem[name] for name in ("code", "by", "reason", "project", "agent")} == {
        "code": "FROZEN", "by": "ann", "reason": "a leak", "project": "shop", "agent": "stop",
    }  # fmt: skip
    rejected = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "reject"})
    assert rejected.json()["outcome"] == "rejected"


async def test_whoever_may_answer_may_freeze_and_only_an_admin_ends_it(
    worker: Caller, ann: Caller, admin_caller: Caller
) -> None:
    assert (await worker.post("/v1/freeze", {"reason": "mine"})).status_code == 403
    assert (await ann.post("/v1/freeze", {"reason": "a leak"})).status_code == 200
    assert (await ann.delete("/v1/freeze")).status_code == 403
    assert (await worker.delete("/v1/freeze")).status_code == 403
    await worker.ask("ses_1", request_id="r1")
    ended = await admin_caller.delete("/v1/freeze?reason=found")
    assert (ended.status_code, ended.json()["ended"]["by"], ended.json()["freezes"]) == (200, "ann", [])
    assert (await worker.get("/v1/sessions/ses_1/asks/r1")).json()["outcome"] == "allowed"


async def test_a_token_bound_to_a_project_freezes_and_sees_that_project_alone(gateway: Served, ann: Caller) -> None:
    bound = await gateway.caller("approver", "bob", projects=["shop"])
    assert (await bound.post("/v1/freeze", {"reason": "all"})).status_code == 403
    assert (await bound.post("/v1/freeze", {"reason": "bank", "project": "bank"})).status_code == 403
    assert (await bound.post("/v1/freeze", {"reason": "shop", "project": "shop"})).status_code == 200
    await ann.post("/v1/freeze", {"reason": "bank", "project": "bank"})
    await ann.post("/v1/freeze", {"reason": "all"})
    seen = (await bound.get("/v1/freeze")).json()["freezes"]
    assert [(one["project"], one["reason"]) for one in seen] == [(None, "all"), ("shop", "shop")]


async def test_everybody_with_a_token_reads_the_freezes_and_nobody_else(gateway: Served, worker: Caller) -> None:
    assert (await worker.get("/v1/freeze")).json() == {"freezes": []}
    assert (await (await gateway.caller("auditor")).get("/v1/freeze")).status_code == 200
    assert (await (await gateway.caller(None)).get("/v1/freeze")).status_code == 401


async def test_a_freeze_without_a_reason_is_refused(ann: Caller) -> None:
    for body in ({}, {"reason": ""}, {"reason": "x", "reach": "all"}, {"reason": "x", "project": "no such id\n"}):
        assert (await ann.post("/v1/freeze", body)).status_code == 422


async def test_freezes_are_counted_for_an_alarm(gateway: Served, ann: Caller) -> None:
    auditor = await gateway.caller("auditor")
    await ann.post("/v1/freeze", {"reason": "a leak"})
    await ann.post("/v1/freeze", {"reason": "a leak", "project": "shop"})
    assert "permission_ledger_freezes 2.0" in (await auditor.get("/metrics")).text
