"""`GET …/asks/{request}/why`: the rule that asks, the grants that would have answered, and what else they would let through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served, in_process
from tests.support.indexing import index
from workers.gateway.settings import GatewaySettings

RULES: dict[str, Any] = {"permission": {"bash": {"*": "ask", "git status *": "allow", "rm *": "deny"}}}


@pytest.fixture
def file(sockets: Path) -> Path:
    return sockets / "search.sqlite"


@pytest.fixture
async def gateway(ledger: Ledger, file: Path) -> AsyncIterator[Served]:
    async with in_process(ledger, GatewaySettings(index_file=file)) as one:
        yield one


async def opened(gateway: Served, session: str = "ses_1", project: str | None = "shop", **more: Any) -> Caller:
    root = await gateway.caller("admin", "root")
    body = {"rules": RULES, "cwd": "/srv/shop", **({} if project is None else {"project": project}), **more}
    made = await root.put(f"/v1/sessions/{session}", body)
    assert made.status_code in (200, 201), made.text
    return root


async def asked(root: Caller, line: str, request_id: str, session: str = "ses_1") -> None:
    body = {"tool_name": "bash", "input": {"command": line}, "request_id": request_id}
    answer = await root.post(f"/v1/sessions/{session}/asks", body)
    assert answer.status_code == 202, answer.text


async def answered(caller: Caller, request_id: str, reply: str, session: str = "ses_1", **more: Any) -> None:
    answer = await caller.post(f"/v1/sessions/{session}/asks/{request_id}/reply", {"reply": reply, **more})
    assert answer.status_code == 200, answer.text


async def why(caller: Caller, request_id: str = "r1", session: str = "ses_1") -> dict[str, Any]:
    answer = await caller.get(f"/v1/sessions/{session}/asks/{request_id}/why")
    assert answer.status_code == 200, answer.text
    row: dict[str, Any] = answer.json()
    return row


async def fill(gateway: Served, ann: Caller) -> Caller:
    """Ask in two sessions of one project, and in one of another project; some are rejected, and one is in its own words."""
    root = await opened(gateway)
    await opened(gateway, "ses_2")
    await opened(gateway, "bank", project="bank")
    for number, (session, line, reply) in enumerate(
        [
            ("ses_1", "git push origin main", "once"),
            ("ses_2", "git push origin main", "once"),
            ("ses_2", "git push --force origin main", "reject"),
            ("ses_2", "npm publish", "once"),
            ("bank", "git push origin main", "once"),
        ]
    ):
        await asked(root, line, f"old{number}", session)
        await answered(ann, f"old{number}", reply, session, **({"message": "never force"} if reply == "reject" else {}))
    await asked(root, "git push origin main", "r1")
    return root


@pytest.mark.parametrize("source", ["index", "log"])
async def test_each_choice_tells_what_else_it_would_have_answered_in_the_project(
    gateway: Served, ledger: Ledger, ann: Caller, file: Path, source: str
) -> None:
    await fill(gateway, ann)
    if source == "index":
        await index(ledger, file)
    row = await why(ann)
    past = row["past"]
    assert (past["source"], past["days"], past["looked_at"], past["unknown"], past["cut"]) == (source, 30, 4, 0, False)
    assert [rule["text"] for rule in row["asks"]["rules"]] == ["bash * ask"]
    exact, *wider = row["choices"]
    assert (exact["entries"], exact["reach"], exact["smallest"], exact["suggested"]) == (
        ["git push origin main"], "exact", True, False,
    )  # fmt: skip
    assert (exact["answered"], exact["answered_here"], exact["rejected"]) == (2, 1, 0)
    family = next(one for one in wider if one["entries"] == ["git push *"])
    assert (family["answered"], family["rejected"], family["smallest"]) == (3, 1, False)
    assert row["refused"] is None
    assert row["scope"] == "project"


async def test_rejected_examples_come_first_and_each_call_once(gateway: Served, ann: Caller) -> None:
    root = await opened(gateway)
    for number, (line, reply) in enumerate(
        [("npm run build", "reject"), ("npm run lint", "once"), ("npm run lint", "once"), ("npm run e2e", "once")]
    ):
        await asked(root, line, f"old{number}")
        await answered(ann, f"old{number}", reply, **({"message": "not that"} if reply == "reject" else {}))
    await asked(root, "npm run start", "r1")
    choices = (await why(ann))["choices"]
    widest = max(choices, key=lambda one: one["answered"])
    assert (widest["answered"], widest["rejected"]) == (4, 1)
    told = [(one["call"], one["outcome"], one["by"]) for one in widest["examples"]]
    assert told[0] == ("npm run build", "corrected", "ann")
    assert sorted(call for call, _, _ in told[1:]) == ["npm run e2e", "npm run lint"]


async def test_what_rules_or_grants_of_now_answer_anyway_is_not_counted(gateway: Served, ann: Caller) -> None:
    root = await opened(gateway)
    await asked(root, "make build", "old")
    await answered(ann, "old", "always")
    await asked(root, "make test", "r1")
    counts = [(one["entries"], one["answered"]) for one in (await why(ann))["choices"]]
    assert counts
    assert all(count == 0 for _, count in counts)


async def test_a_chosen_grant_answers_the_request_and_the_next_one_like_it(gateway: Served, ann: Caller) -> None:
    root = await opened(gateway)
    await asked(root, "make build", "r1")
    row = await why(ann)
    smallest = next(one for one in row["choices"] if one["smallest"])
    body = {"digest": row["digest"], "patterns": smallest["entries"], "expires": "1h"}
    await answered(ann, "r1", "always", **body)
    again = await root.post("/v1/sessions/ses_1/asks", {"tool_name": "bash", "input": {"command": "make build"}})
    assert (again.status_code, again.json()["outcome"]) == (200, "allowed")


@pytest.mark.slow
async def test_the_rule_for_a_file_is_the_dialects_and_allows_the_call(gateway: Served, ann: Caller) -> None:
    root = await opened(gateway)
    await asked(root, "make build", "r1")
    rule = (await why(ann))["rule"]
    assert rule["config"] == {"permission": {"bash": {"make build": "allow"}}}
    rules = {"permission": {"bash": {**RULES["permission"]["bash"], **rule["config"]["permission"]["bash"]}}}
    judged = await root.post(
        "/v1/policy/check",
        {"dialect": "opencode", "config": rules, "tool": "bash", "input": {"command": "make build"}},
    )
    assert judged.json()["verdict"] == "allow"


async def test_a_settled_request_keeps_its_reason(gateway: Served, ann: Caller) -> None:
    root = await opened(gateway)
    await asked(root, "make build", "r1")
    await answered(ann, "r1", "once")
    row = await why(ann)
    assert row["choices"][0]["entries"] == ["make build"]


async def test_nobody_sees_examples_out_of_reach_and_no_agent_sees_any(
    gateway: Served, ledger: Ledger, ann: Caller, file: Path
) -> None:
    await fill(gateway, ann)
    bound = await gateway.caller("approver", "bound", sessions=["ses_1"])
    for _ in range(2):
        row = await why(bound)
        assert (row["past"]["looked_at"], row["scope"]) == (1, "session")
        assert {one["session"] for choice in row["choices"] for one in choice["examples"]} <= {"ses_1"}
        await index(ledger, file)
    agent = await gateway.caller("agent", "worker")
    assert (await agent.get("/v1/sessions/ses_1/asks/r1/why")).status_code == 403
    elsewhere = await gateway.caller("approver", "elsewhere", projects=["bank"])
    assert (await elsewhere.get("/v1/sessions/ses_1/asks/r1/why")).status_code == 404
    assert (await ann.get("/v1/sessions/ses_1/asks/r9/why")).status_code == 404


async def test_only_requests_of_exactly_this_project_count_and_as_they_ended_by_now(
    gateway: Served, ledger: Ledger, ann: Caller, file: Path
) -> None:
    root = await opened(gateway)
    for session, project in (("shop", "bank"), ("ses_2", "Shop"), ("alone", None)):
        await opened(gateway, session, project=project)
        await asked(root, "make build", "old", session)
    await asked(root, "make build", "old")
    await asked(root, "make build", "r1")
    await asked(root, "make build", "r1", "alone")
    await index(ledger, file)
    await answered(ann, "old", "reject", message="no")
    row = await why(ann)
    assert (row["past"]["source"], row["past"]["looked_at"]) == ("index", 1)
    exact = row["choices"][0]
    assert (exact["answered"], exact["rejected"], exact["examples"][0]["by"]) == (1, 1, "ann")
    alone = await why(ann, session="alone")
    assert (alone["past"]["looked_at"], alone["project"], alone["scope"]) == (1, None, "session")
