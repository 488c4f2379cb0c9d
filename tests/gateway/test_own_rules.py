"""A gateway's own rules judge agents that bring none, as the file is at the moment of each ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served, in_process
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings


def write(file: Path, bash: str | dict[str, str]) -> None:
    file.write_text(json.dumps({"permission": {"bash": bash}}))


def spoil(file: Path) -> None:
    file.write_text("{")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "opencode.json"
    write(file, "allow")
    return file


@pytest.fixture
async def ruled(ledger: Ledger, file: Path) -> AsyncIterator[Served]:
    settings = GatewaySettings(policies={"opencode": rule_file("opencode", file)})
    async with in_process(ledger, settings) as one:
        yield one


@pytest.fixture
async def worker(ruled: Served) -> Caller:
    worker = await ruled.caller("agent", "worker")
    assert (await worker.put("/v1/sessions/ses_1")).status_code == 201
    return worker


async def types(ruled: Served, session: str = "ses_1") -> list[str]:
    return [one.type async for one in (await ruled.ledger.attach(session)).events(follow_on=False)]


async def test_a_changed_file_judges_the_next_ask_and_is_recorded_before_it(
    ruled: Served, worker: Caller, file: Path
) -> None:
    assert (await worker.ask("ses_1")).json()["outcome"] == "allowed"
    write(file, "deny")
    assert (await worker.ask("ses_1")).json()["outcome"] == "denied"
    assert (await worker.ask("ses_1")).json()["outcome"] == "denied"
    assert await types(ruled) == ["session_opened", "asked", "policy_changed", "asked", "asked"]
    assert (await (await ruled.ledger.attach("ses_1")).state()).policy_source == "gateway"


async def test_a_file_that_cannot_be_read_lets_nothing_through(ruled: Served, worker: Caller, file: Path) -> None:
    spoil(file)
    refused = await worker.ask("ses_1")
    assert refused.status_code >= 400
    assert "line 1" in refused.json()["detail"]
    assert (await worker.put("/v1/sessions/ses_2")).status_code >= 400
    write(file, "allow")
    assert (await worker.ask("ses_1")).json()["outcome"] == "allowed"
    assert await types(ruled) == ["session_opened", "asked"]


async def test_a_session_with_rules_of_its_own_keeps_them(ruled: Served, file: Path) -> None:
    own = await ruled.caller("agent", "own", brings_rules=True)
    await own.put("/v1/sessions/ses_3", {"rules": [{"permission": "bash", "pattern": "*", "action": "deny"}]})
    write(file, "ask")
    assert (await own.ask("ses_3")).json()["outcome"] == "denied"


async def test_a_sub_agent_is_judged_by_the_file_and_keeps_what_its_parent_denies(
    ruled: Served, worker: Caller, file: Path
) -> None:
    assert (await worker.put("/v1/sessions/child", {"parent": "ses_1"})).status_code == 201
    assert (await worker.ask("child")).json()["outcome"] == "allowed"
    denied = await worker.post("/v1/sessions/child/asks", {"permission": "task", "patterns": ["x"]})
    assert denied.json()["outcome"] == "denied"
    write(file, "deny")
    assert (await worker.ask("child")).json()["outcome"] == "denied"


async def test_an_agent_that_brings_no_rules_gains_nothing_by_a_home_or_a_folder(
    ruled: Served, worker: Caller, file: Path
) -> None:
    write(file, {"cat *": "allow"})
    key = {"tool_name": "bash", "input": {"command": "cat ~/.ssh/id_rsa"}}
    for number, place in enumerate(({"home": "/srv/shop"}, {"home": "/"}, {"home": "/srv", "cwd": "/"})):
        session = f"s{number}"
        opened = (await worker.put(f"/v1/sessions/{session}", {"cwd": "/srv/shop", **place})).json()
        asked = (await worker.post(f"/v1/sessions/{session}/asks", key)).json()
        assert (asked["outcome"], asked["request"]["patterns"][0]) == (None, "~/.ssh/*")
        for folder in {"/srv/shop", "/", "/root"} - {opened["cwd"]}:
            refused = await worker.post(f"/v1/sessions/{session}/asks", {**key, "cwd": folder})
            assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


async def test_the_home_of_an_agent_that_brings_its_rules_counts(ruled: Served) -> None:
    agent = await ruled.caller("agent", "mine", brings_rules=True)
    place = {
        "cwd": "/srv/shop",
        "home": "/home/ann",
        "rules": [{"permission": "bash", "pattern": "*", "action": "allow"}],
    }
    await agent.put("/v1/sessions/mine", place)
    key = {"tool_name": "bash", "input": {"command": "cat ~/.ssh/id_rsa"}}
    asked = (await agent.post("/v1/sessions/mine/asks", key)).json()
    assert asked["request"]["patterns"] == ["/home/ann/.ssh/*"]
