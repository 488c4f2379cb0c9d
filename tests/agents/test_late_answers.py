"""Answers after more than five minutes: `make test-agents AGENTS_ARGS=--slow`, and not in every run.

All agents ask at the same time, so that one wait serves all of them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.agents import anthropic_model, openai_model
from tests.agents.anthropic_model import DONE, Turn
from tests.agents.claude_client import BRIDGE, Room
from tests.agents.clients import installed
from tests.agents.opencode_client import BridgeProcess, OpenCodeClient
from tests.agents.rpc_client import Home, RpcClient, bridge
from tests.agents.scripted_model import ScriptedModel
from tests.agents.test_codex import Ide, shell
from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT
from tests.support.waiting import wait_until_async
from workers.bridges.hook_entries import hook_settings

LATE_S: Final = 310.0
HOOK_LIMIT_S: Final = 60
"""The hook's limit; short, so that the hook reports several times that no answer has come."""

ENDED_S: Final = 60.0
PATIENCE_S: Final = LATE_S + 290

pytestmark = [
    pytest.mark.agents("claude", "opencode", "codex"),
    pytest.mark.slow,
    pytest.mark.timeout(PATIENCE_S),
]


class Agent(NamedTuple):
    """An agent that has asked; `proof` exists once the call ran."""

    name: str
    session: str
    proof: Path


class AsksAgain(anthropic_model.Model):
    """Repeats the same call until it is stopped; `results` are the answers it received."""

    def __init__(self, command: str) -> None:
        super().__init__([])
        self._command = command

    def turn_for(self, messages: Any) -> Turn:
        if all(text.startswith("still pending, ask again: ") for _, text in self.results.values()):
            return [anthropic_model.bash(self._command, f"toolu_{len(self.results) + 1}")]
        return DONE


class Agents:
    """The agents of one run, and everything to end after it."""

    def __init__(self, folder: Path, gateway: RunningGateway, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._gateway = gateway
        self._stack = stack
        self._home = {"PERMISSION_LEDGER_HOME": str(gateway.home)}

    def claude_on_stdio(self) -> Agent:
        proof = self._folder / "stdio" / "work" / "proof"
        room = self._room("stdio", anthropic_model.Model([[anthropic_model.bash(f"touch {proof}", "toolu_1")]]))
        client = room.start(wrapper=BRIDGE, environment=self._home)
        self._stack.callback(client.close)
        client.say("do the work")
        return Agent("Claude Code on stdio", client.session, proof)

    def claude_with_hooks(self) -> tuple[Agent, AsksAgain]:
        proof = self._folder / "hooks" / "work" / "proof"
        model = AsksAgain(f"touch {proof}")
        room = self._room("hooks", model)
        words = ["--session", "hooked", "--limit", str(HOOK_LIMIT_S)]
        (room.config / "settings.json").write_text(json.dumps({"hooks": hook_settings(words, HOOK_LIMIT_S)}))
        self._start_plain(room)
        return Agent("Claude Code with hooks", "hooked", proof), model

    def claude_with_prompt_tool(self) -> Agent:
        proof = self._folder / "tool" / "work" / "proof"
        room = self._room("tool", anthropic_model.Model([[anthropic_model.bash(f"touch {proof}", "toolu_1")]]))
        words = [*BRIDGE[1:], "--prompt-tool", "--session", "prompted"]
        server = {"command": BRIDGE[0], "args": words, "env": {"PYTHONPATH": str(ROOT), **self._home}}
        config = room.folder / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"ledger": server}}))
        self._start_plain(room, "--mcp-config", str(config), "--permission-prompt-tool", "mcp__ledger__approve")
        return Agent("Claude Code with the prompt tool", "prompted", proof)

    async def opencode(self) -> Agent:
        folder = self._folder / "opencode"
        folder.mkdir()
        model = openai_model.Model([[openai_model.bash("touch proof", "call_a")]])
        client = OpenCodeClient(folder, installed("opencode"), model)
        self._stack.callback(model.close)
        self._stack.push_async_callback(client.close)
        client.start()
        beside = BridgeProcess(self._gateway, folder, "--url", client.url)
        self._stack.callback(beside.kill)
        return Agent("OpenCode", await client.begin(), client.project / "proof")

    def codex(self) -> Agent:
        home, model = Home(self._folder / "codex"), ScriptedModel([shell("touch proof")])
        environment = {**home.codex(model.url), **self._home}
        client = RpcClient([*bridge("codex"), str(installed("codex")), "app-server"], home, environment)
        self._stack.callback(model.close)
        self._stack.callback(client.close)
        ide = Ide(client, model, home, trusts=False)
        return Agent("Codex", ide.thread, home.work / "proof")

    def _room(self, name: str, model: anthropic_model.Model) -> Room:
        self._stack.callback(model.close)
        return Room(self._folder / name, installed("claude"), model)

    def _start_plain(self, room: Room, *words: str) -> None:
        """`claude -p`, which ends by itself."""
        # Starting an MCP server is slow on a busy machine.
        patience = {"MCP_TIMEOUT": "30000", "MCP_CONNECT_TIMEOUT_MS": "30000", "MCP_CONNECTION_NONBLOCKING": "0"}
        process = subprocess.Popen(
            [str(room.program), "-p", "do the work", *words],
            cwd=room.work,
            env=room.environment({**self._home, **patience}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)


@pytest.fixture
async def agents(tmp_path: Path, gateway: RunningGateway) -> AsyncIterator[Agents]:
    async with AsyncExitStack() as stack:
        yield Agents(tmp_path, gateway, stack)


async def test_an_answer_after_five_minutes_is_the_answer_to_what_was_asked(
    agents: Agents, gateway: RunningGateway
) -> None:
    hooked, model = agents.claude_with_hooks()
    waiting = [agents.claude_on_stdio(), hooked, agents.claude_with_prompt_tool(), await agents.opencode()]
    waiting.append(agents.codex())
    ann = gateway.person()
    asked = {agent: (await ann.waiting(agent.session))[0]["request_id"] for agent in waiting}
    await _pass(LATE_S)
    assert [agent.name for agent in waiting if agent.proof.exists()] == [], "nobody has answered"
    await wait_until_async(lambda: gateway.is_waited_for(hooked.session), "the hook to wait again", ENDED_S)
    assert {agent: await _pending(ann, agent) for agent in waiting} == {agent: [one] for agent, one in asked.items()}
    for agent, request_id in asked.items():
        await ann.reply(agent.session, request_id, "once")
    for agent in waiting:
        await wait_until_async(agent.proof.exists, f"what {agent.name} asked for to run", ENDED_S)
    told = [text.partition(":")[0] for _, text in model.results.values()]
    assert told[:5] == ["still pending, ask again"] * 5
    await ann.close()


async def _pass(seconds: float) -> None:
    """Let real time pass: the agents' own limits use the machine's clock."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    await wait_until_async(lambda: clock() >= until, f"{seconds:g} s to pass", seconds + ENDED_S)


async def _pending(person: Any, agent: Agent) -> Sequence[str]:
    return [row["request_id"] for row in await person.pending(agent.session)]
