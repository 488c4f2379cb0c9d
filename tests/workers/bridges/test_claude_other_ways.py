"""claude-agent-sdk's callback, and the MCP tool for `--permission-prompt-tool`: the same judge in other words."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.forks import Fork
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until_async
from workers.bridges.claude.sdk import CanUseTool, ledger_can_use_tool

RULES = {"permissions": {"allow": ["Bash(mytool *)"], "deny": ["Bash(rm *)"]}}


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(RULES))
    return str(path)


# --- claude-agent-sdk ------------------------------------------------------------------------------------------------


@dataclass
class Allow:
    """The SDK's PermissionResultAllow, as far as it is used."""

    updated_input: dict[str, Any] | None = None


@dataclass
class Deny:
    """The SDK's PermissionResultDeny."""

    message: str = ""
    interrupt: bool = False


@dataclass
class Context:
    """The SDK's ToolPermissionContext."""

    tool_use_id: str | None = None
    agent_id: str | None = None
    suggestions: list[Any] = field(default_factory=list)


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK brings the client with it, hundreds of megabytes; only its result types are needed here."""
    module = ModuleType("claude_agent_sdk")
    monkeypatch.setattr(module, "PermissionResultAllow", Allow, raising=False)
    monkeypatch.setattr(module, "PermissionResultDeny", Deny, raising=False)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", module)


def bash(ask: CanUseTool, command: str, call_id: str, **context: Any) -> asyncio.Task[Any]:
    async def asked() -> Any:
        return await ask("Bash", {"command": command}, Context(call_id, **context))

    return asyncio.create_task(asked())


async def test_the_callback_answers_by_rules_and_by_people(sdk: None, gateway: RunningGateway, rules: str) -> None:
    ask = ledger_can_use_tool(session="ses_1", rules=rules, cwd="/tmp")
    assert await bash(ask, "mytool x", "t1") == Allow({"command": "mytool x"})
    assert isinstance(await bash(ask, "rm x", "t2"), Deny)
    suggestion = {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash", "ruleContent": "git push"}]}
    asked = bash(ask, "git push", "t3", agent_id="a7", suggestions=[suggestion])
    ann = gateway.person()
    shown = await ann.answer_next("ses_1", "once", updated_input={"command": "git push --dry-run"})
    assert await asked == Allow({"command": "git push --dry-run"})
    assert (shown["agent"], shown["parent"], shown["always"]) == ("agent a7", "claude-code", ["Bash(git push)"])
    await ann.close()
    await ask.close()


async def test_a_callback_that_the_sdk_cancels_withdraws_its_request(sdk: None, gateway: RunningGateway) -> None:
    ask = ledger_can_use_tool(session="ses_1", cwd="/tmp")
    asked = bash(ask, "git push", "t1")
    ann = gateway.person()
    await ann.waiting("ses_1")
    asked.cancel()
    await asyncio.wait([asked])
    [cancelled] = [row["event"] for row in await ann.events("ses_1") if row["type"] == "cancelled"]
    assert (cancelled["request_id"], cancelled["cause"]) == ("t1", "asker_gave_up")
    await ann.close()
    await ask.close()


@pytest.mark.usefixtures("no_gateway")
async def test_without_a_gateway_the_callback_denies_or_asks_the_other_one(sdk: None, gateway: RunningGateway) -> None:
    async def otherwise(_name: str, _input: dict[str, Any], _context: Any) -> str:
        return "asked"

    denied = await bash(ledger_can_use_tool(grace=0, cwd="/tmp"), "mytool x", "t1")
    ask = ledger_can_use_tool(grace=0, cwd="/tmp", on_unreachable="agent", otherwise=otherwise)
    assert ("nobody could be asked" in denied.message, await bash(ask, "mytool x", "t2")) == (True, "asked")
    alone = ledger_can_use_tool(grace=0, cwd="/tmp", on_unreachable="agent")
    assert isinstance(await bash(alone, "mytool x", "t3"), Deny)


# --- MCP -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def prompt_tool(gateway: RunningGateway, *words: str) -> AsyncIterator[ClientSession]:
    arguments = ["-m", "workers.cli", "bridge", "claude", "--prompt-tool", "--session", "ses_1", *words]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=gateway.environment)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


async def answer(session: ClientSession, command: str, call_id: str) -> Any:
    arguments = {"tool_name": "Bash", "input": {"command": command}, "tool_use_id": call_id}
    [block] = (await session.call_tool("approve", arguments)).content
    assert block.type == "text"
    return json.loads(block.text)


@pytest.mark.slow
async def test_the_prompt_tool_answers_in_one_text_of_json(gateway: RunningGateway, rules: str) -> None:
    async with prompt_tool(gateway, "--rules", rules) as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == ["approve"]
        allowed = {"behavior": "allow", "updatedInput": {"command": "mytool x"}}
        assert await answer(session, "mytool x", "t1") == allowed
        assert (await answer(session, "rm x", "t2"))["behavior"] == "deny"
        asked = asyncio.create_task(answer(session, "git push", "t3"))
        ann = gateway.person()
        await ann.answer_next("ses_1", "reject", message="not now")
        assert (await asked)["message"].endswith("not now")
        await ann.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cancels the call", "is gone"])
async def test_what_the_prompt_tool_asks_is_withdrawn_when_its_client(gateway: RunningGateway, how: str) -> None:
    words = ["bridge", "claude", "--prompt-tool", "--session", "ses_1"]
    process: subprocess.Popen[bytes] = Fork(
        words, env=gateway.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin

    def say(**message: Any) -> None:
        assert process.stdin
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()

    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "claude", "version": "1"}}
    arguments = {"tool_name": "Bash", "input": {"command": "git push"}, "tool_use_id": "t1"}
    say(id=1, method="initialize", params=about)
    say(method="notifications/initialized")
    say(id=2, method="tools/call", params={"name": "approve", "arguments": arguments})
    ann = gateway.person()
    await ann.waiting("ses_1")
    if how == "cancels the call":
        say(method="notifications/cancelled", params={"requestId": 2})
    else:
        process.stdin.close()

    async def causes() -> list[str]:
        return [row["event"]["cause"] for row in await ann.events("ses_1") if row["type"] == "cancelled"]

    assert await wait_until_async(causes, "the request to be withdrawn") == ["asker_gave_up"]
    process.stdin.close()
    assert await asyncio.to_thread(process.wait, 60) == 0
    await ann.close()


@pytest.mark.slow
@pytest.mark.usefixtures("no_gateway")
async def test_the_prompt_tool_denies_what_nobody_could_be_asked_about(gateway: RunningGateway) -> None:
    async with prompt_tool(gateway, "--on-unreachable", "agent", "--grace", "0") as session:
        assert (await answer(session, "mytool x", "t1"))["behavior"] == "deny"
