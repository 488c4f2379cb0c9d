"""Claims over HTTP: one runner, once, and what another caller is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledger.core.questions import Runner, claim_id_of
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served
from tests.support.waiting import wait_until_async

RULES = [
    {"permission": "bash", "pattern": "ls*", "action": "allow"},
    {"permission": "bash", "pattern": "rm*", "action": "deny"},
]
JOB = {"name": "job", "call": "7"}
ASKS = "/v1/sessions/ses_1/asks"


@pytest.fixture
async def opened(gateway: Served) -> Caller:
    """An agent that has opened `ses_1` with rules of its own."""
    agent = await gateway.caller("agent", "worker", brings_rules=True)
    assert (await agent.put("/v1/sessions/ses_1", {"project": "shop", "rules": RULES})).status_code == 201
    return agent


@pytest.fixture
async def allowed(opened: Caller, ann: Caller) -> Caller:
    """The same, with request `r1` that a person has allowed."""
    assert (await opened.ask("ses_1", "git push", request_id="r1")).status_code == 202
    assert (await ann.post(f"{ASKS}/r1/reply", {"reply": "once"})).status_code == 200
    return opened


async def types(caller: Caller) -> list[str]:
    return [row["type"] for row in (await caller.get("/v1/sessions/ses_1/log?limit=1000")).json()["events"]]


async def test_the_first_runner_claims_and_may_ask_again(allowed: Caller) -> None:
    first = await allowed.post(f"{ASKS}/r1/claim", {"runner": JOB})
    again = await allowed.post(f"{ASKS}/r1/claim", {"runner": JOB})
    assert (first.status_code, first.json()["claim_id"]) == (200, claim_id_of(Runner("job", "7")))
    assert again.json() == first.json()


async def test_another_runner_is_told_who_was_first_and_stops(allowed: Caller) -> None:
    await allowed.post(f"{ASKS}/r1/claim", {"runner": "job-7"})
    refused = await allowed.post(f"{ASKS}/r1/claim", {"runner": "job-8"})
    row = refused.json()
    assert (refused.status_code, row["code"], row["runner"], row["by"]) == (409, "ALREADY_CLAIMED", "job-7", "worker")
    assert row["agent"] == "stop"


async def test_the_key_of_the_request_names_the_runner_where_the_body_does_not(allowed: Caller) -> None:
    assert (await allowed.post(f"{ASKS}/r1/claim")).status_code == 422
    first = await allowed.post(f"{ASKS}/r1/claim", idempotency_key="k1")
    assert (await allowed.post(f"{ASKS}/r1/claim", idempotency_key="k1")).json() == first.json()
    assert (await allowed.post(f"{ASKS}/r1/claim", idempotency_key="k2")).status_code == 409


async def test_a_call_that_a_rule_allows_is_asked_and_claimed_in_one_append(opened: Caller, ann: Caller) -> None:
    asked = await opened.post(ASKS, {"request_id": "r1", "permission": "bash", "patterns": ["ls"], "claim": JOB})
    claim = asked.json()["claim"]
    assert (asked.status_code, claim["runner"], claim["status"]) == (200, "job", "open")
    log = (await ann.get("/v1/sessions/ses_1/log")).json()["events"]
    assert [row["type"] for row in log] == ["session_opened", "asked", "claimed"]
    assert log[1]["at"] == log[2]["at"]


async def test_an_ask_that_waits_returns_with_the_claim(opened: Caller, ann: Caller) -> None:
    body = {"request_id": "r1", "permission": "bash", "patterns": ["git push"], "claim": JOB}
    asking = asyncio.create_task(opened.post(f"{ASKS}?wait=20", body))

    async def pending() -> bool:
        return len((await ann.get("/v1/pending")).json()["pending"]) == 1

    await wait_until_async(pending, "the request to be pending")
    await ann.post(f"{ASKS}/r1/reply", {"reply": "once"})
    answer = (await asking).json()
    assert (answer["outcome"], answer["claim"]["claim_id"]) == ("allowed", claim_id_of(Runner("job", "7")))
    assert (await types(ann))[-2:] == ["replied", "claimed"]


async def test_an_ask_with_the_key_as_runner_is_claimed_once(allowed: Caller) -> None:
    body = {"request_id": "r1", "permission": "bash", "patterns": ["git push"], "claim": True}
    first = await allowed.post(ASKS, body, idempotency_key="k1")
    assert (first.status_code, (await allowed.post(ASKS, body, idempotency_key="k1")).json()) == (200, first.json())
    assert (await allowed.post(ASKS, body, idempotency_key="k2")).json()["code"] == "ALREADY_CLAIMED"
    assert (await allowed.post(ASKS, body)).status_code == 422


async def test_what_no_longer_holds_is_reopened_with_its_reason(
    gateway: Served, opened: Caller, ann: Caller, clock: TestClock
) -> None:
    await ann.post("/v1/grants", {"session": "ses_1", "permission": "bash", "pattern": "git push"})
    assert (await opened.ask("ses_1", "git push", request_id="r1")).json()["outcome"] == "allowed"
    [grant] = (await ann.get("/v1/grants?session=ses_1")).json()["grants"]
    await ann.send("DELETE", f"/v1/grants/{grant['grant_id']}")
    refused = await opened.post(f"{ASKS}/r1/claim", {"runner": JOB})
    row = refused.json()
    assert (refused.status_code, row["code"], row["round"], row["agent"]) == (409, "REOPENED", 2, "continue")
    assert "grant" in row["reason"]
    # An answer to the round before does not count; one that names the round does.
    late = await ann.post(f"{ASKS}/r1/reply", {"reply": "once"})
    assert (late.status_code, late.json()["code"]) == (409, "DIGEST_MISMATCH")
    assert (await ann.post(f"{ASKS}/r1/reply", {"reply": "once", "round": 2})).status_code == 200
    assert (await opened.post(f"{ASKS}/r1/claim", {"runner": JOB})).status_code == 200


async def test_the_input_that_may_run_is_the_one_that_a_person_made_of_it(opened: Caller, ann: Caller) -> None:
    await opened.post(ASKS, {"request_id": "r1", "tool_name": "bash", "input": {"command": "git push"}})
    await ann.post(f"{ASKS}/r1/reply", {"reply": "once", "updated_input": {"command": "git push --dry-run"}})
    claim = await opened.post(f"{ASKS}/r1/claim", {"runner": JOB})
    assert claim.json()["input"] == {"command": "git push --dry-run"}


async def test_an_end_is_recorded_under_its_claim(allowed: Caller, ann: Caller) -> None:
    claim = (await allowed.post(f"{ASKS}/r1/claim", {"runner": JOB})).json()
    ended = await allowed.post(f"{ASKS}/r1/finish", {"claim_id": claim["claim_id"], "ok": False, "output": "exit 3"})
    assert (ended.status_code, ended.json()["claim"]["status"]) == (200, "finished")
    again = await allowed.post(f"{ASKS}/r1/claim", {"runner": JOB})
    assert (again.status_code, again.json()["code"]) == (409, "ALREADY_CLAIMED")
    log = (await ann.get("/v1/sessions/ses_1/log")).json()["events"]
    event = log[-1]["event"]
    assert (log[-1]["type"], event["claim_id"], event["ok"]) == ("tool_finished", claim["claim_id"], False)


async def test_an_end_may_name_the_runner_instead_of_the_claim(allowed: Caller) -> None:
    await allowed.post(f"{ASKS}/r1/claim", idempotency_key="k1")
    assert (await allowed.post(f"{ASKS}/r1/finish", {}, idempotency_key="k1")).status_code == 200
    both = await allowed.post(f"{ASKS}/r1/finish", {"claim_id": "clm_1", "runner": "job"})
    assert both.status_code == 422


@pytest.mark.parametrize("role", ["approver", "admin"])
async def test_a_person_gives_back_the_claim_of_a_dead_runner(gateway: Served, allowed: Caller, role: Any) -> None:
    await allowed.post(f"{ASKS}/r1/claim", {"runner": "job-7"})
    person = await gateway.caller(role, "carol")
    released = await person.post(f"{ASKS}/r1/release", {"reason": "the machine burnt down"})
    assert (released.status_code, released.json()["claim"]["status"]) == (200, "released")
    assert (await allowed.post(f"{ASKS}/r1/claim", {"runner": "job-8"})).status_code == 200


async def test_an_agent_gives_back_claims_of_its_own_requests_only(gateway: Served, allowed: Caller) -> None:
    await allowed.post(f"{ASKS}/r1/claim", {"runner": "job-7"})
    other = await gateway.caller("agent", "other", everything=True)
    assert (await other.post(f"{ASKS}/r1/release")).status_code == 403
    assert (await allowed.post(f"{ASKS}/r1/release")).status_code == 200


async def test_an_agent_that_brings_no_rules_claims_only_where_it_asks(gateway: Served, allowed: Caller) -> None:
    other = await gateway.caller("agent", "other", everything=True)
    for path, body in (
        (f"{ASKS}/r1/claim", {"runner": "x"}),
        (f"{ASKS}/r1/finish", {"runner": "x"}),
        ("/v1/sessions/ses_1/claims-ended", {"runner": "x"}),
    ):
        assert (await other.post(path, body)).status_code == 403


async def test_the_claims_of_a_runner_that_has_ended_permit_no_other_run(allowed: Caller, ann: Caller) -> None:
    await allowed.post(f"{ASKS}/r1/claim", {"runner": JOB})
    await allowed.post(ASKS, {"request_id": "r2", "permission": "bash", "patterns": ["ls"], "claim": "another"})
    ended = await allowed.post("/v1/sessions/ses_1/claims-ended", {"runner": "job"})
    assert ended.json() == {"ended": ["r1"]}
    refused = await allowed.post(f"{ASKS}/r1/claim", {"runner": JOB})
    assert (refused.status_code, "may have run" in refused.json()["detail"]) == (409, True)


async def test_an_auditor_and_a_person_who_answers_claim_nothing(gateway: Served, allowed: Caller, ann: Caller) -> None:
    auditor = await gateway.caller("auditor", "eve")
    for caller in (auditor, ann):
        assert (await caller.post(f"{ASKS}/r1/claim", {"runner": "x"})).status_code == 403
        assert (await caller.post(f"{ASKS}/r1/finish", {"runner": "x"})).status_code == 403
    assert (await auditor.post(f"{ASKS}/r1/release")).status_code == 403


@pytest.mark.parametrize(
    ("answer", "code"), [({"reply": "reject"}, "REJECTED"), ({"reply": "reject", "message": "use pnpm"}, "CORRECTED")]
)
async def test_what_a_person_refused_is_not_claimed(
    opened: Caller, ann: Caller, answer: dict[str, str], code: str
) -> None:
    await opened.ask("ses_1", "git push", request_id="r1")
    await ann.post(f"{ASKS}/r1/reply", answer)
    refused = await opened.post(f"{ASKS}/r1/claim", {"runner": JOB})
    assert (refused.status_code, refused.json()["code"]) == (409, code)
    assert (await opened.post(f"{ASKS}/nosuch/claim", {"runner": JOB})).status_code == 404


async def test_files_are_hashed_again_for_the_claim_after_a_wait(opened: Caller, ann: Caller) -> None:
    def operand(content: str) -> dict[str, str]:
        return {"path": "/repo/deploy.sh", "sha256": content * 64}

    body = {"request_id": "r1", "tool_name": "bash", "input": {"command": "./deploy.sh"}, "cwd": "/repo", "claim": JOB}
    asking = asyncio.create_task(opened.post(f"{ASKS}?wait=20", {**body, "operands": [operand("a")]}))

    async def pending() -> bool:
        return len((await ann.get("/v1/pending")).json()["pending"]) == 1

    await wait_until_async(pending, "the request to be pending")
    await ann.post(f"{ASKS}/r1/reply", {"reply": "once"})
    stale = await asking
    assert (stale.status_code, stale.json()["code"]) == (428, "OPERANDS_WANTED")
    assert stale.json()["wanted"] == [{"paths": ["/repo/deploy.sh"]}]
    without = await opened.post(f"{ASKS}/r1/claim", {"runner": JOB})
    assert without.status_code == 428
    changed = await opened.post(f"{ASKS}/r1/claim", {"runner": JOB, "operands": [operand("b")]})
    assert (changed.status_code, changed.json()["code"]) == (409, "REOPENED")
    assert "deploy.sh changed after it was approved" in changed.json()["reason"]
    await ann.post(f"{ASKS}/r1/reply", {"reply": "once", "round": 2})
    assert (await opened.post(ASKS, {**body, "operands": [operand("b")]})).json()["claim"]["status"] == "open"
