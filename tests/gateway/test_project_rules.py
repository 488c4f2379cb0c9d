"""A call is judged by the rules of its project, as the gateway's user trusts them, whatever the caller says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served, in_process
from tests.support.trusting import TrustedProject, of_its_own, rewritten_unseen
from tests.support.waiting import wait_until_async
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings
from workers.transport.trusted import rules_trusted_for

STATUS = {"tool_name": "Bash", "input": {"command": "git status --short"}}
PUSH = {"tool_name": "Bash", "input": {"command": "git push origin"}}


def claude(**permissions: list[str]) -> Any:
    return {"permissions": permissions}


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrustedProject:
    """The project in which the gateway was started, whose rules are its own as well."""
    of_its_own(monkeypatch, tmp_path / "config")
    return TrustedProject(tmp_path / "first", "claude", claude(allow=["Bash(git status *)", "Bash(git push *)"]))


@pytest.fixture
def second(first: TrustedProject) -> TrustedProject:
    folder = first.folder.parent / "second"
    return TrustedProject(folder, "claude", claude(deny=["Bash(git status *)"], allow=["Bash(git push *)"]))


@pytest.fixture
async def one(ledger: Ledger, first: TrustedProject) -> AsyncIterator[Served]:
    settings = GatewaySettings(policies={"claude": rule_file("claude", first.rules)})
    async with in_process(ledger, settings) as one:
        yield one


@pytest.fixture(params=[True, False], ids=["brings rules", "brings none"])
async def agent(one: Served, request: pytest.FixtureRequest) -> Caller:
    return await one.caller("agent", "worker", brings_rules=request.param, any_project=True)


async def opened(agent: Caller, session: str, folder: Path, dialect: str = "claude", **more: Any) -> Any:
    body = {"project": str(folder), "cwd": str(folder), "dialect": dialect, **more}
    return await agent.put(f"/v1/sessions/{session}", body)


async def asked(agent: Caller, session: str, call: dict[str, Any] = STATUS, **more: Any) -> Any:
    return (await agent.post(f"/v1/sessions/{session}/asks", {**call, **more})).json()


def files_of(row: Any) -> set[str]:
    return {rule["file"] for rule in row["evaluation"]["rules"]}


async def test_each_of_three_projects_is_judged_by_its_own_rules_in_its_own_dialect(
    agent: Caller, one: Served, first: TrustedProject, second: TrustedProject
) -> None:
    third = TrustedProject(first.folder.parent / "third", "opencode", {"permission": {"bash": {"git status*": "ask"}}})
    codelia = {"version": 1, "permissions": {"deny": [{"tool": "bash", "command": "git status"}]}}
    fourth = TrustedProject(first.folder.parent / "fourth", "codelia", codelia)
    outside = first.folder.parent / "outside"
    found = {}
    for project in (first, second, third, fourth):
        below = project.folder / "src"
        await opened(agent, project.folder.name, below, project.dialect)
        row = await asked(agent, project.folder.name)
        found[project.folder.name] = row["outcome"]
        assert files_of(row) == {str(project.rules)}
        state = await (await one.ledger.attach(project.folder.name)).state()
        assert state.policy_source == f"project {project.file}"
    await opened(agent, "outside", outside)
    assert (await asked(agent, "outside"))["outcome"] == "allowed"
    assert (await (await one.ledger.attach("outside")).state()).policy_source == "gateway"
    assert found == {"first": "allowed", "second": "denied", "third": None, "fourth": "denied"}


async def test_a_caller_that_means_other_rules_than_the_gateway_trusts_is_refused(
    agent: Caller, second: TrustedProject
) -> None:
    meant = rules_trusted_for(str(second.folder))
    assert (await opened(agent, "s", second.folder, project_rules=meant)).status_code == 201
    assert (await asked(agent, "s", PUSH, project_rules=meant))["outcome"] == "allowed"
    refused = await asked(agent, "s", PUSH, project_rules="0" * 64)
    assert (refused["code"], refused["status"]) == ("PROJECT_RULES_DIFFER", 409)
    assert "permission-ledger config trust" in refused["detail"]
    assert str(second.file) in refused["detail"]


async def test_a_project_that_the_gateway_does_not_trust_is_not_judged_by_the_gateways_own_rules(
    agent: Caller, second: TrustedProject
) -> None:
    meant = rules_trusted_for(str(second.folder))
    second.untrust()
    refused = await opened(agent, "s", second.folder, project_rules=meant)
    assert refused.json()["code"] == "PROJECT_RULES_DIFFER"
    assert f"trusts no project's file for `{second.folder}`" in refused.json()["detail"]
    assert (await asked(agent, "s", project_rules=meant))["code"] == "PROJECT_RULES_DIFFER"
    second.trust()
    assert (await asked(agent, "s", project_rules=meant))["outcome"] == "denied"


async def test_a_session_that_was_opened_under_another_projects_rules_is_of_no_use_to_the_hook(
    agent: Caller, first: TrustedProject, second: TrustedProject
) -> None:
    await opened(agent, "s", first.folder)
    meant = rules_trusted_for(str(second.folder))
    assert (await asked(agent, "s", project_rules=meant))["code"] == "PROJECT_RULES_DIFFER"
    # Nor is it under another's once it is bound, whatever the caller says later.
    await opened(agent, "t", second.folder)
    for folder in (first.folder, second.folder.parent):
        await agent.put("/v1/sessions/t", {"cwd": str(folder)})
        assert (await asked(agent, "t", cwd=str(second.folder)))["outcome"] == "denied"


async def test_rules_that_an_agent_brought_do_not_stand_for_those_of_its_project(
    one: Served, second: TrustedProject
) -> None:
    agent = await one.caller("agent", "worker", brings_rules=True, any_project=True)
    brought = {"rules": claude(allow=["Bash"]), "policy_source": f"project {second.file}"}
    await opened(agent, "s", second.folder, **brought)
    meant = rules_trusted_for(str(second.folder))
    assert (await asked(agent, "s", project_rules=meant))["code"] == "PROJECT_RULES_DIFFER"


async def test_the_removal_of_a_trusted_file_does_not_put_its_project_under_other_rules(
    agent: Caller, second: TrustedProject
) -> None:
    await opened(agent, "s", second.folder)
    second.file.unlink()
    refused = await asked(agent, "s")
    assert refused["code"] == "POLICY"
    assert "bring it back, or forget it" in refused["detail"]
    assert (await opened(agent, "t", second.folder)).status_code == 422


def same(text: str, other: str) -> tuple[bytes, bytes]:
    size = max(len(text), len(other))
    return text.ljust(size).encode(), other.ljust(size).encode()


async def test_of_other_content_than_the_trusted_one_only_the_denies_count(
    agent: Caller, one: Served, second: TrustedProject
) -> None:
    strict, loose = same(
        json.dumps(claude(deny=["Bash(git status *)"], allow=["Bash(git push *)"])),
        json.dumps(claude(deny=["Bash(git push *)"], allow=["Bash"])),
    )
    second.rules.write_bytes(strict)
    second.trust()
    await opened(agent, "s", second.folder)
    assert (await asked(agent, "s", PUSH))["outcome"] == "allowed"
    rewritten_unseen(second.rules, loose)
    assert (await asked(agent, "s", PUSH))["outcome"] == "denied"
    for call in (STATUS, {"tool_name": "Read", "input": {"file_path": str(second.folder / "a")}}):
        row = await asked(agent, "s", call)
        assert row["outcome"] is None
        assert row["evaluation"]["reason"].startswith(f"`{second.rules}` was changed since it was trusted")
    rewritten_unseen(second.rules, strict)
    assert (await asked(agent, "s", PUSH))["outcome"] == "allowed"
    rewritten_unseen(second.rules, loose)
    second.trust()
    assert (await asked(agent, "s"))["outcome"] == "allowed"


async def test_a_projects_file_that_names_other_rules_counts_as_changed(agent: Caller, second: TrustedProject) -> None:
    await opened(agent, "s", second.folder)
    (second.folder / "mine.json").write_text(json.dumps(claude(allow=["Bash"])))
    second.file.write_text('rules = ["claude=mine.json"]\n')
    for session in ("s", "t"):
        await opened(agent, session, second.folder)
        row = await asked(agent, session, PUSH)
        assert row["outcome"] is None
        assert str(second.file) in row["evaluation"]["reason"]
    second.file.write_text("# no rules\n")
    assert (await asked(agent, "s", PUSH))["outcome"] is None
    await opened(agent, "u", second.folder)
    assert (await asked(agent, "u", PUSH))["outcome"] is None


async def test_no_grant_lifts_what_is_asked_because_the_rules_were_changed(
    one: Served, agent: Caller, second: TrustedProject
) -> None:
    ann = await one.caller("approver", "ann")
    await opened(agent, "s", second.folder)
    grant = {"project": str(second.folder), "permission": "Bash", "patterns": ["Bash(git status *)"]}
    assert (await ann.post("/v1/grants", grant)).status_code in (200, 201)
    assert (await asked(agent, "s"))["outcome"] == "denied"
    second.write(claude(allow=["Bash(ls *)"]))
    row = await asked(agent, "s", request_id="per_1")
    assert row["outcome"] is None
    # What a person allows is still allowed, once.
    await ann.post("/v1/sessions/s/asks/per_1/reply", {"reply": "always"})
    assert (await agent.get("/v1/sessions/s/asks/per_1")).json()["outcome"] == "allowed"
    assert (await asked(agent, "s"))["outcome"] is None


async def test_the_gateways_own_file_in_a_trusted_project_is_compared_as_well(
    one: Served, agent: Caller, first: TrustedProject
) -> None:
    outside = first.folder.parent / "outside"
    await opened(agent, "s", outside)
    assert (await asked(agent, "s"))["outcome"] == "allowed"
    first.write(claude(allow=["Bash"]))
    assert (await asked(agent, "s"))["outcome"] is None
    first.trust()
    assert (await asked(agent, "s"))["outcome"] == "allowed"


@pytest.mark.slow
async def test_a_deny_of_a_changed_file_stops_a_yes_to_what_waits(
    one: Served, agent: Caller, second: TrustedProject
) -> None:
    second.write(claude(ask=["Bash"]))
    second.trust()
    await opened(agent, "s", second.folder)
    assert (await asked(agent, "s", PUSH, request_id="per_1"))["outcome"] is None
    second.write(claude(deny=["Bash(git push *)"]))
    session = await one.ledger.attach("s")

    async def recorded() -> bool:
        return [event.type async for event in session.events(follow_on=False)][-1] == "policy_changed"

    await wait_until_async(recorded, "the changed rules to be recorded", 10)
    ann = await one.caller("approver", "ann")
    answered = await ann.post("/v1/sessions/s/asks/per_1/reply", {"reply": "once"})
    assert answered.json()["outcome"] == "denied"


async def test_a_list_of_trusted_files_that_others_may_write_lets_nothing_through(
    agent: Caller, second: TrustedProject, tmp_path: Path
) -> None:
    await opened(agent, "s", second.folder)
    (tmp_path / "config" / "permission-ledger").chmod(0o777)
    refused = await asked(agent, "s", PUSH)
    assert refused["code"] == "POLICY"
    assert "others may write it" in refused["detail"]
