"""Rules that become stricter while a request waits, and edited inputs, over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served, in_process
from tests.support.waiting import wait_until_async
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings

WITHIN_S = 5.0
"""A changed rule file is in force for what waits after this time."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "opencode.json"
    write(file, {"*": "ask"})
    return file


def write(file: Path, bash: dict[str, str]) -> None:
    file.write_text(json.dumps({"permission": {"bash": bash}}))


@pytest.fixture
async def ruled(ledger: Ledger, file: Path) -> AsyncIterator[Served]:
    settings = GatewaySettings(policies={"opencode": rule_file("opencode", file)})
    async with in_process(ledger, settings) as one:
        yield one


@pytest.fixture
async def worker(ruled: Served) -> Caller:
    """An agent whose `git push` waits for a person."""
    worker = await ruled.caller("agent", "worker")
    await worker.put("/v1/sessions/ses_1", {"project": "shop"})
    asked = await worker.post(
        "/v1/sessions/ses_1/asks", {"tool_name": "bash", "input": {"command": "git push"}, "request_id": "per_1"}
    )
    assert asked.status_code == 202
    return worker


async def deny(ruled: Served, file: Path) -> None:
    """Add a deny to the file; returns when it is in the log of the session, where nobody asks meanwhile."""
    write(file, {"*": "ask", "git push*": "deny"})
    session = await ruled.ledger.attach("ses_1")

    async def recorded() -> bool:
        return [one.type async for one in session.events(follow_on=False)][-1] == "policy_changed"

    await wait_until_async(recorded, "the changed rules to be recorded", WITHIN_S)


async def test_a_deny_that_is_written_to_the_file_while_a_request_waits_stops_a_later_yes(
    ruled: Served, worker: Caller, file: Path
) -> None:
    await deny(ruled, file)
    ann = await ruled.caller("approver", "ann")
    answered = await ann.post("/v1/sessions/ses_1/asks/per_1/reply", {"reply": "always"})
    row = answered.json()
    assert (answered.status_code, row["outcome"], row["reply"], row["by"]) == (200, "denied", "always", "ann")
    assert [rule["text"] for rule in row["evaluation"]["rules"]] == ["bash git push* deny"]
    told = (await worker.get("/v1/sessions/ses_1/asks/per_1")).json()
    assert (told["outcome"], told["code"], told["agent"]) == ("denied", "DENIED", "continue")
    granted = (await ann.get("/v1/grants?project=shop")).json()["grants"]
    assert [one["pattern"] for one in granted] == ["git push *"]


@pytest.mark.slow
async def test_opencodes_clients_are_told_that_a_yes_was_overruled(ruled: Served, worker: Caller, file: Path) -> None:
    await deny(ruled, file)
    ann = await ruled.caller("approver", "ann")
    answered = await ann.post("/permission/per_1/reply", {"reply": "once"})
    assert (answered.status_code, answered.json()["_tag"]) == (409, "PermissionDeniedError")
    assert "git push*" in answered.json()["message"]


@pytest.mark.slow
async def test_an_edit_that_a_rule_denies_is_refused_with_the_rule(ruled: Served, worker: Caller, file: Path) -> None:
    await deny(ruled, file)
    ann = await ruled.caller("approver", "ann")
    path = "/v1/sessions/ses_1/asks/per_1/reply"
    refused = await ann.post(path, {"reply": "once", "updated_input": {"command": "git push --force"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "EDIT_DENIED")
    assert [rule["text"] for rule in refused.json()["reasons"]] == ["bash git push* deny"]
    answered = await ann.post(path, {"reply": "once", "updated_input": {"command": "git status"}})
    assert (answered.status_code, answered.json()["outcome"]) == (200, "allowed")


async def test_an_agent_that_brings_no_rules_cannot_have_late_denies_ignored(ruled: Served) -> None:
    worker = await ruled.caller("agent", "worker")
    refused = await worker.put("/v1/sessions/ses_2", {"late_denies": "ignore"})
    assert (refused.status_code, refused.json()["code"]) == (403, "RULES_NOT_YOURS")
