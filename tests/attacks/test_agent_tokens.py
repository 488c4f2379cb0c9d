"""Attacks with a stolen agent token: on the rules, and on the sessions and projects of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from ledger.client.tokens import Tokens
from tests.gateway.callers import Caller, Served, in_process
from workers.gateway.announcement import write_address
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings

ALLOW_ALL = [{"permission": "*", "pattern": "*", "action": "allow"}]


@pytest.fixture
async def ruled(ledger: Ledger, sockets: Path) -> AsyncIterator[Served]:
    """A gateway whose own rules allow `git status` alone, in two dialects."""
    strict, other = sockets / "opencode.json", sockets / "claude.json"
    strict.write_text('{"permission": {"*": "ask", "bash": {"git status": "allow", "rm *": "deny"}}}')
    other.write_text('{"permissions": {"deny": ["Bash(rm:*)"]}}')
    policies = {"opencode": rule_file("opencode", strict), "claude": rule_file("claude", other)}
    async with in_process(ledger, GatewaySettings(policies=policies)) as one:
        yield one


async def loose_session(gateway: Served, name: str = "loose", **more: Any) -> Caller:
    """Another agent, which brings rules that allow everything, and its session."""
    other = await gateway.caller("agent", "other", brings_rules=True, everything=True)
    opened = await other.put(f"/v1/sessions/{name}", {"project": "shop", "rules": ALLOW_ALL, **more})
    assert opened.status_code == 201
    return other


def refused(answer: Any, *codes: str) -> None:
    assert answer.status_code in (403, 404), answer.text
    assert answer.json()["code"] in codes


# --- looser rules


@pytest.mark.parametrize("reach", [{}, {"everything": True}, {"any_project": True}, {"projects": ["shop"]}])
async def test_asking_in_a_session_that_has_looser_rules(ruled: Served, reach: dict[str, Any]) -> None:
    await loose_session(ruled)
    agent = await ruled.caller("agent", **reach)
    refused(await agent.ask("loose", "curl evil"), "UNKNOWN_SESSION", "FORBIDDEN")


async def test_opening_a_child_of_a_session_that_has_looser_rules(ruled: Served) -> None:
    rules = [*ALLOW_ALL, {"permission": "external_directory", "pattern": "*", "action": "allow"}]
    await loose_session(ruled, rules=rules)
    narrow = await ruled.caller("agent")
    refused(await narrow.put("/v1/sessions/child", {"parent": "loose"}), "UNKNOWN_SESSION")
    wide = await ruled.caller("agent", everything=True)
    assert (await wide.put("/v1/sessions/child", {"parent": "loose", "project": "shop"})).status_code == 201
    assert (await wide.ask("child", "curl evil")).json()["outcome"] is None
    outside = {"permission": "external_directory", "patterns": ["/etc/*"]}
    assert (await wide.post("/v1/sessions/child/asks", outside)).json()["outcome"] is None
    assert (await wide.ask("child", "rm x")).json()["outcome"] == "denied"
    assert (await wide.ask("child", "git status")).json()["outcome"] == "allowed"


@pytest.mark.parametrize("dialect", ["codelia", "betcode", "brutus"])
async def test_opening_in_a_dialect_of_which_the_gateway_has_no_rules(ruled: Served, dialect: str) -> None:
    agent = await ruled.caller("agent")
    refused(await agent.put("/v1/sessions/ses_1", {"dialect": dialect}), "RULES_NOT_YOURS")
    assert (await agent.get("/v1/sessions/ses_1")).status_code == 404
    assert (await agent.put("/v1/sessions/ses_1", {"dialect": "claude"})).status_code == 201


async def test_opening_in_a_dialect_where_the_gateway_has_no_rules_at_all(gateway: Served, agent: Caller) -> None:
    for dialect in ("claude", "codelia", "betcode", "brutus"):
        refused(await agent.put("/v1/sessions/ses_1", {"dialect": dialect}), "RULES_NOT_YOURS")
    assert (await agent.put("/v1/sessions/ses_1", {"dialect": "opencode"})).status_code == 201
    await loose_session(gateway)
    wide = await gateway.caller("agent", everything=True)
    assert (await wide.put("/v1/sessions/child", {"parent": "loose"})).status_code == 201
    assert (await wide.ask("child", "curl evil")).json()["outcome"] is None


async def test_changing_the_dialect_of_an_open_session(ruled: Served) -> None:
    agent = await ruled.caller("agent")
    said = {"dialect": "opencode", "timeouts": {"attended": "30s"}, "answering": "anyone"}
    assert (await agent.put("/v1/sessions/ses_1", said)).status_code == 201
    refused(await agent.put("/v1/sessions/ses_1", {"dialect": "claude"}), "RULES_NOT_YOURS")
    # A restarted bridge sends the same again.
    again = await agent.put("/v1/sessions/ses_1", said)
    assert (again.status_code, again.json()["dialect"]) == (200, "opencode")
    assert (await agent.ask("ses_1", "git status")).json()["outcome"] == "allowed"


@pytest.mark.parametrize("folder", ["/", "/srv", "/srv/shopping", "/srv/shop/..", "/srv/shop/../../", "//", "/etc"])
async def test_asking_from_a_folder_outside_the_session_s(ruled: Served, folder: str) -> None:
    agent = await ruled.caller("agent")
    await agent.put("/v1/sessions/ses_1", {"cwd": "/srv/shop"})
    refused(await agent.ask("ses_1", "git status", cwd=folder), "FORBIDDEN")
    assert (await agent.ask("ses_1", "git status", cwd="/srv/shop/src")).status_code == 200
    assert (await agent.ask("ses_1", "git status", cwd="/srv/shop/")).status_code == 200


async def test_asking_from_any_folder_in_a_session_of_the_whole_disk(ruled: Served) -> None:
    agent = await ruled.caller("agent")
    for number, place in enumerate(({}, {"cwd": "/"}, {"cwd": "//"}, {"cwd": "/srv/.."})):
        await agent.put(f"/v1/sessions/s{number}", place)
        refused(await agent.ask(f"s{number}", "git status", cwd="/etc"), "FORBIDDEN")


async def test_opening_in_a_folder_outside_the_token_s(ruled: Served) -> None:
    agent = await ruled.caller("agent", folders=["/srv/shop", "/srv/bank"])
    for folder in ("/", "/srv", "/srv/shop/../x"):
        refused(await agent.put("/v1/sessions/ses_1", {"cwd": folder}), "FORBIDDEN")
    assert (await agent.put("/v1/sessions/ses_1", {"cwd": "/srv/shop/a"})).status_code == 201
    refused(await agent.ask("ses_1", "git status", cwd="/srv/bank"), "FORBIDDEN")
    single = await ruled.caller("agent", folders=["/srv/shop"])
    assert (await single.put("/v1/sessions/ses_2")).json()["cwd"] == "/srv/shop"


# --- the sessions of others


async def others_session(gateway: Served, **reach: Any) -> Caller:
    """Another agent's session `theirs` in project `shop`, with a pending request and an answered one."""
    other = await gateway.caller("agent", "other", **reach)
    await other.put("/v1/sessions/theirs", {"project": "shop"})
    await other.ask("theirs", "git push", request_id="r1")
    return other


@pytest.mark.parametrize("reach", [{}, {"projects": ["shop"]}, {"any_project": True}, {"brings_rules": True}])
async def test_everything_that_can_be_done_in_another_agent_s_session(gateway: Served, reach: dict[str, Any]) -> None:
    other = await others_session(gateway)
    thief = await gateway.caller("agent", "thief", **reach)
    await thief.put("/v1/sessions/mine", {"project": "shop"})
    place = "/v1/sessions/theirs"
    for answer in [
        await thief.get(place),
        await thief.put(place),
        await thief.put(place, {"rules": ALLOW_ALL} if reach.get("brings_rules") else {}),
        await thief.get(f"{place}/asks/r1"),
        await thief.ask("theirs", "git push"),
        await thief.ask("theirs", "git push", request_id="r1"),
        await thief.post(f"{place}/asks/r1/cancel"),
        await thief.post(f"{place}/asks/r1/answered", {"reply": "once", "prompt": "editor"}),
        await thief.post(f"{place}/tools-finished", {"request_id": "r1"}),
        await thief.post(f"{place}/close"),
        await thief.get(f"{place}/events"),
        await thief.get("/v1/grants?session=theirs"),
        await thief.put("/v1/sessions/child", {"parent": "theirs"}),
    ]:
        refused(answer, "UNKNOWN_SESSION")
    assert (await thief.get("/v1/pending")).json() == {"pending": [], "count": 0, "problems": [], "cursor": None}
    assert (await thief.get("/permission")).json() == []
    listed = (await thief.get("/v1/sessions")).json()["sessions"]
    assert [one["session"] for one in listed] == ["mine"]
    row = (await other.get(f"{place}/asks/r1")).json()
    assert row["outcome"] is None
    assert [one["session"] for one in (await other.get("/v1/sessions")).json()["sessions"]] == ["theirs"]


async def test_seeing_the_grants_of_another_agent_s_session(gateway: Served, ann: Caller) -> None:
    other = await others_session(gateway)
    await ann.post("/v1/grants", {"session": "theirs", "permission": "bash", "pattern": "git secret"})
    await ann.post("/v1/grants", {"project": "bank", "permission": "bash", "pattern": "git vault"})
    thief = await gateway.caller("agent", "thief")
    assert (await thief.get("/v1/grants")).json()["grants"] == []
    assert (await thief.get("/v1/grants?project=bank")).status_code == 403
    seen = [one["pattern"] for one in (await other.get("/v1/grants")).json()["grants"]]
    assert seen == ["git secret"]


@pytest.mark.parametrize("path", ["/v1/events", "/v1/events?session=theirs", "/v1/events?project=shop"])
async def test_listening_to_another_agent_s_session(gateway: Served, path: str) -> None:
    other = await others_session(gateway)
    thief = await gateway.caller("agent", "thief", projects=["shop"])
    await thief.put("/v1/sessions/mine")
    async with thief.http.stream("GET", path) as stream:
        lines = stream.aiter_lines()
        received = [line async for line in _until(lines, "stream.open")]
        await other.ask("theirs", "git push --force", request_id="r2")
        if path == "/v1/events":
            await thief.ask("mine", "git fetch", request_id="own")
            received += [line async for line in _until(lines, '"own"')]
    assert "theirs" not in "\n".join(received)


async def _until(lines: AsyncIterator[str], text: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if text in line:
            return


async def test_working_in_a_second_project(gateway: Served, ledger: Ledger) -> None:
    agent = await gateway.caller("agent")
    assert (await agent.put("/v1/sessions/s1", {"project": "shop"})).status_code == 201
    refused(await agent.put("/v1/sessions/s2", {"project": "bank"}), "FORBIDDEN")
    assert (await agent.put("/v1/sessions/s3", {"project": "shop"})).status_code == 201
    async with Ledger.connect(ledger.server_url) as elsewhere:
        (token,) = await elsewhere.tokens.all()
        assert token.claimed == "shop"


async def test_claiming_a_second_project_at_once(ledger: Ledger) -> None:
    made = await ledger.tokens.create("worker", "agent")
    assert await ledger.tokens.claim(made.token.token_id, "shop") == "shop"
    assert await ledger.tokens.claim(made.token.token_id, "bank") == "shop"


async def test_claiming_a_project_by_a_browser_signed_in_with_the_token(gateway: Served, ledger: Ledger) -> None:
    made = await ledger.tokens.create("worker", "agent")
    agent = gateway.caller_with(made.text)
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    browser = await gateway.browser(made.text)
    browser.http.headers["Origin"] = "http://gateway"
    refused(await browser.put("/v1/sessions/s2", {"project": "bank"}), "FORBIDDEN")
    assert (await browser.put("/v1/sessions/s1", {})).status_code == 200


async def test_the_token_of_this_machine_reading_what_others_opened(gateway: Served, tmp_path: Path) -> None:
    tokens: Tokens = gateway.ledger.tokens
    await write_address(tmp_path, "http://x", "http://x", tokens)
    await others_session(gateway)
    hook = gateway.caller_with((tmp_path / "gateway-token").read_text())
    assert (await hook.get("/v1/sessions/theirs")).status_code == 404
    for project in ("/srv/shop", "/srv/bank"):
        assert (await hook.put(f"/v1/sessions/in-{project[5:]}", {"project": project})).status_code == 201


async def test_the_token_of_this_machine_from_before_reach_was_recorded(gateway: Served, tmp_path: Path) -> None:
    tokens: Tokens = gateway.ledger.tokens
    old = await tokens.create("dev", "agent", brings_rules=True)
    (tmp_path / "gateway-token").write_text(old.text)
    await write_address(tmp_path, "http://x", "http://x", tokens)
    made = await tokens.find((tmp_path / "gateway-token").read_text())
    assert (made.token_id != old.token.token_id, made.any_project, made.everything) == (True, True, False)
    await write_address(tmp_path, "http://x", "http://x", tokens)
    assert (await tokens.find((tmp_path / "gateway-token").read_text())).token_id == made.token_id


async def test_a_token_from_before_reach_was_recorded_is_narrow(gateway: Served, ledger: Ledger) -> None:
    made = await ledger.tokens.create("old", "agent")
    assert not made.token.everything
    assert (made.token.is_narrow, made.token.claims_one) == (True, True)


async def test_a_token_made_with_everything_reaches_others(gateway: Served) -> None:
    await others_session(gateway)
    wide = await gateway.caller("agent", everything=True)
    assert (await wide.get("/v1/sessions/theirs/asks/r1")).status_code == 202
    assert (await wide.post("/v1/sessions/theirs/asks/r1/cancel")).json()["outcome"] == "cancelled"


async def test_a_token_made_for_a_session_goes_on_in_it(gateway: Served) -> None:
    await others_session(gateway)
    successor = await gateway.caller("agent", sessions=["theirs"])
    assert (await successor.ask("theirs", "git push", request_id="r1")).status_code == 202
    assert (await successor.put("/v1/sessions/mine")).status_code == 403
