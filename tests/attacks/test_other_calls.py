"""Attacks by a call that looks like one that somebody was asked about: the answer must not let it in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.command_line import CommandLine
from tests.support.gateways import Person, RunningGateway, ann, gateway
from tests.support.waiting import wait_until_async
from workers.bridges.acp import call_of
from workers.bridges.codex_wire import command_call
from workers.bridges.hook_entries import own_line
from workers.bridges.options import BridgeOptions
from workers.bridges.tool_calls import GatewayJudge, ToolCall
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import GatewayRefusalError

__all__ = ["ann", "gateway"]

SESSION: Final = "5b0e"
SCRATCH, PRODUCTION = "/srv/scratch", "/srv/production"
COMMAND: Final = "git clean -fdx"
RULES: Final = {
    "claude": {"permissions": {"allow": ["Bash(mytool *)"]}},
    "gemini": {"permission": {"bash": "ask"}},
}

Started = subprocess.Popen[str]
Start = Callable[..., Started]


@pytest.fixture
def start(gateway: RunningGateway, tmp_path: Path) -> Start:
    """Starts the installed line of a hook on an event."""

    def started(event: dict[str, Any], *words: str, agent: str = "claude") -> Started:
        rules = tmp_path / f"{agent}.json"
        rules.write_text(json.dumps(RULES[agent]))
        process = subprocess.Popen(
            own_line(agent, ["--rules", str(rules), *words]),
            shell=True,
            env=gateway.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdin
        process.stdin.write(json.dumps(event))
        process.stdin.close()
        process.stdin = None
        return process

    return started


def said(process: Started) -> str:
    return process.communicate(timeout=60)[0]


def claude(call_id: str | None, cwd: str, name: str = "PreToolUse", command: str = COMMAND) -> dict[str, Any]:
    ids = {} if call_id is None else {"tool_use_id": call_id}
    call = {"tool_name": "Bash", "tool_input": {"command": command}}
    return {"session_id": SESSION, "cwd": cwd, "hook_event_name": name, "permission_mode": "default", **call, **ids}


def gemini(context: dict[str, Any]) -> dict[str, Any]:
    said = {"session_id": SESSION, "cwd": SCRATCH, "hook_event_name": "BeforeTool", "mcp_context": context}
    return {**said, "tool_name": "mcp_db_drop", "tool_input": {"table": "orders"}}


async def answer_both(ann: Person, session: str = SESSION) -> list[dict[str, Any]]:
    """Allow the first of two requests, and reject the second; return them as shown."""
    rows = await ann.waiting(session, 2)
    await ann.reply(session, rows[0]["request_id"], "once")
    await ann.reply(session, rows[1]["request_id"], "reject")
    return rows


async def kill(ann: Person, gateway: RunningGateway, process: Started) -> None:
    """Kill a hook as soon as it waits."""
    await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the hook to wait")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


@pytest.mark.parametrize("way", ["left", "killed"])
async def test_the_answer_that_another_folder_s_hook_waited_for(
    start: Start, gateway: RunningGateway, ann: Person, way: str
) -> None:
    if way == "killed":
        await kill(ann, gateway, start(claude("toolu_1", SCRATCH)))
    else:
        assert "still pending" in said(start(claude("toolu_1", SCRATCH), "--limit", "1"))
    second = start(claude("toolu_2", PRODUCTION))
    rows = await answer_both(ann)
    assert [(row["request_id"], row["cwd"]) for row in rows] == [("toolu_1", SCRATCH), ("toolu_2", PRODUCTION)]
    assert '"deny"' in said(second)


async def test_the_answer_to_the_hook_that_waits_beside_it(start: Start, ann: Person) -> None:
    first = start(claude("toolu_1", SCRATCH))
    await ann.waiting(SESSION)
    second = start(claude("toolu_2", PRODUCTION))
    await answer_both(ann)
    assert ('"allow"' in said(first), '"deny"' in said(second)) == (True, True)


async def test_the_yes_at_the_prompt_of_another_folder(start: Start, gateway: RunningGateway, ann: Person) -> None:
    waiting = start(claude(None, PRODUCTION, "PermissionRequest"))
    [shown] = await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the hook to wait")
    assert said(start(claude("toolu_9", SCRATCH, "PostToolUse"))) == ""
    assert [row["request_id"] for row in await ann.pending(SESSION)] == [shown["request_id"]]
    await ann.reply(SESSION, shown["request_id"], "reject")
    assert '"deny"' in said(waiting)


async def test_a_call_that_changes_the_folder_is_still_the_call_that_was_asked(
    start: Start, gateway: RunningGateway, ann: Person
) -> None:
    """Claude Code names the folder after the call in the event that ends it; the id of the call names its request."""
    waiting = start(claude("toolu_1", SCRATCH))
    await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the hook to wait")
    assert said(start(claude("toolu_1", f"{SCRATCH}/sub", "PostToolUse"))) == ""
    assert await ann.pending(SESSION) == []
    said(waiting)


async def test_taking_up_what_the_first_hook_of_another_folder_asked(start: Start, ann: Person) -> None:
    words = ("--event", "both")
    said(start(claude("toolu_1", SCRATCH), "--limit", "1", *words))
    second = start(claude(None, PRODUCTION, "PermissionRequest"), *words)
    rows = await answer_both(ann)
    assert [row["cwd"] for row in rows] == [SCRATCH, PRODUCTION]
    assert '"deny"' in said(second)


async def test_the_same_call_of_another_server(start: Start, ann: Person) -> None:
    said(start(gemini({"server_name": "staging"}), "--limit", "1", agent="gemini"))
    second = start(gemini({"server_name": "production"}), agent="gemini")
    rows = await answer_both(ann)
    assert [row["metadata"]["mcp_context"]["server_name"] for row in rows] == ["staging", "production"]
    assert '"deny"' in said(second)


async def test_a_script_that_was_changed_while_nobody_waited(start: Start, ann: Person, tmp_path: Path) -> None:
    script = tmp_path / "deploy.sh"
    script.write_text("echo harmless\n")
    said(start(claude("toolu_1", str(tmp_path), command="sh deploy.sh"), "--limit", "1"))
    script.write_text("echo harmful\n")
    second = start(claude("toolu_2", str(tmp_path), command="sh deploy.sh"))
    before, after = await answer_both(ann)
    assert before["operands"] != after["operands"]
    assert '"deny"' in said(second)


async def test_the_very_same_call_attaches(start: Start, gateway: RunningGateway, ann: Person, tmp_path: Path) -> None:
    (tmp_path / "deploy.sh").write_text("echo\n")
    same = claude("toolu_1", str(tmp_path), command="sh deploy.sh")
    said(start(same, "--limit", "1"))
    again = start({**same, "tool_use_id": "toolu_2", "permission_mode": "acceptEdits"})
    await wait_until_async(gateway.is_waited_for, "the second hook to attach")
    assert [row["request_id"] for row in await ann.pending(SESSION)] == ["toolu_1"]
    await ann.reply(SESSION, "toolu_1", "once")
    assert '"allow"' in said(again)


# --- bridges ----------------------------------------------------------------------------------------------------------


def acp(request_id: str, cwd: str, text: str = "") -> ToolCall:
    shown = [{"type": "content", "content": {"type": "text", "text": text}}]
    told = {"toolCallId": request_id, "kind": "execute", "rawInput": {"command": COMMAND}, "content": shown}
    return call_of(told, request_id, cwd)


def codex(request_id: str, cwd: str, **shown: Any) -> ToolCall:
    return command_call({"itemId": request_id, "command": COMMAND, **shown}, {}, request_id, cwd)


def to_host(request_id: str, host: str) -> ToolCall:
    return codex(request_id, SCRATCH, networkApprovalContext={"host": host})


def in_the_judges_folder(request_id: str) -> ToolCall:
    return ToolCall(request_id, "bash", {"command": COMMAND})


CALLS: Final = {
    "acp: folder": (acp("r1", SCRATCH), acp("r2", PRODUCTION)),
    "acp: what is shown": (acp("r1", SCRATCH, "on staging"), acp("r2", SCRATCH, "on production")),
    "codex: folder": (codex("r1", SCRATCH), codex("r2", PRODUCTION)),
    "codex: environment": (
        codex("r1", SCRATCH, environmentId="staging"),
        codex("r2", SCRATCH, environmentId="production"),
    ),
    "codex: host": (to_host("r1", "pypi.org"), to_host("r2", "example.com")),
    "claude and codelia: folder of the process": (in_the_judges_folder("r1"), in_the_judges_folder("r2")),
}


async def leave(judge: GatewayJudge, call: ToolCall, ann: Person) -> None:
    """Ask, and stop waiting as soon as a person is asked."""
    asking = asyncio.create_task(judge.judge(call))
    await ann.waiting(SESSION)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize("name", CALLS)
async def test_the_answer_that_a_bridge_waited_for_on_another_call(
    gateway: RunningGateway, ann: Person, name: str
) -> None:
    first, second = CALLS[name]
    async with GatewayClient(gateway.agent_place) as client:
        await leave(GatewayJudge(client, BridgeOptions(project="shop"), SESSION, agent="x", cwd=SCRATCH), first, ann)
        judge = GatewayJudge(client, BridgeOptions(project="shop"), SESSION, agent="x", cwd=PRODUCTION)
        asking = asyncio.create_task(judge.judge(second))
        rows = await answer_both(ann)
        assert {row["request_id"] for row in rows} == {"r1", "r2"}, rows
        assert (await asking).behaviour == "deny"


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("claude")])
async def test_a_bridge_attaches_to_the_very_same_call(gateway: RunningGateway, ann: Person, name: str) -> None:
    first, _ = CALLS[name]
    async with GatewayClient(gateway.agent_place) as client:
        judge = GatewayJudge(client, BridgeOptions(project="shop"), SESSION, agent="x", cwd=SCRATCH)
        await leave(judge, first, ann)
        again = asyncio.create_task(judge.judge(first._replace(request_id="r2")))
        await wait_until_async(gateway.is_waited_for, "the bridge to attach")
        assert [row["request_id"] for row in await ann.pending(SESSION)] == ["r1"]
        await ann.reply(SESSION, "r1", "once")
        assert (await again).behaviour == "allow"


async def test_a_script_that_was_changed_while_no_bridge_waited(
    gateway: RunningGateway, ann: Person, tmp_path: Path
) -> None:
    script = tmp_path / "deploy.sh"
    script.write_text("echo harmless\n")
    call = ToolCall("r1", "Bash", {"command": "sh deploy.sh"}, cwd=str(tmp_path))
    async with GatewayClient(gateway.agent_place) as client:
        judge = GatewayJudge(client, BridgeOptions(project="shop"), SESSION, agent="x", cwd=str(tmp_path))
        await leave(judge, call, ann)
        script.write_text("echo harmful\n")
        asking = asyncio.create_task(judge.judge(call._replace(request_id="r2")))
        await answer_both(ann)
        assert (await asking).behaviour == "deny"


# --- a known id -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"cwd": PRODUCTION},
        {"metadata": {"server": "production"}},
        {"input": {"command": f"{COMMAND} ."}},
        {"tool_name": "Bash2"},
        {"permission": "bash", "patterns": ["*"]},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_the_id_of_a_request_over_http_with_another_call(
    gateway: RunningGateway, ann: Person, other: dict[str, Any]
) -> None:
    call = {"request_id": "r1", "tool_name": "Bash", "input": {"command": COMMAND}, "cwd": SCRATCH}
    call |= {"metadata": {"server": "staging"}}
    async with GatewayClient(gateway.agent_place) as client:
        await client.open_session(SESSION, cwd="/srv")
        assert (await client.submit(SESSION, call))["outcome"] is None
        for claim in ({}, {"claim": {"name": "x", "call": "r1"}}):
            await _refused(client, {**call, **other, **claim})
        assert (await client.submit(SESSION, call))["request_id"] == "r1", "the same ask attaches"
        await ann.reply(SESSION, "r1", "once")
        for claim in ({}, {"claim": {"name": "x", "call": "r1"}}):
            await _refused(client, {**call, **other, **claim})
        allowed = await client.submit(SESSION, {**call, "claim": {"name": "x", "call": "r1"}})
        assert (allowed["outcome"], bool(allowed["claim"])) == ("allowed", True)


async def _refused(client: GatewayClient, body: dict[str, Any]) -> None:
    with pytest.raises(GatewayRefusalError) as refused:
        await client.submit(SESSION, body)
    assert (refused.value.status, refused.value.code) == (409, "DIFFERENT_REQUEST")


def test_the_id_of_a_request_on_the_command_line_in_another_folder(gateway: RunningGateway, tmp_path: Path) -> None:
    scratch, production = tmp_path / "scratch", tmp_path / "production"
    for folder in (scratch, production):
        folder.mkdir()
        (folder / "kept").write_text("kept")
    line = CommandLine(gateway.server.url, gateway.environment, tmp_path)
    line("ask", "ses_1", "bash", "ls", "--no-wait", code=7)
    here, there = (CommandLine(gateway.server.url, gateway.environment, one) for one in (scratch, production))
    ask = ("ask", "ses_1", "bash", "rm kept", "--id", "r1", "--no-wait")
    run = ("run", "ses_1", "--id", "r2", "--no-wait", "--", "rm", "kept")
    for words in (ask, run):
        here(*words, code=7)
        assert "was asked in" in there(*words, code=12).err
    for request_id in ("r1", "r2"):
        here("reply", request_id, "once", code=0)
    for words in (ask, run):
        assert "was asked in" in there(*words, code=12).err
        here(*words, code=0)
    assert ((scratch / "kept").exists(), (production / "kept").exists()) == (False, True)
