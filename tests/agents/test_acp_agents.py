"""Journeys of agents that editors start by ACP, behind the bridge: Qwen Code, Copilot, Kimi, Claude Code and Codex."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.acp_agents import AGENTS, AcpAgent, beside
from tests.agents.editor import ASK, Editor
from tests.agents.rpc_client import Home, RpcClient, bridge, command
from tests.support.gateways import RunningGateway

pytestmark = pytest.mark.timeout(240)

Start = Callable[..., Editor]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.agents(name)) for name in AGENTS])
def agent(request: pytest.FixtureRequest) -> AcpAgent:
    return AGENTS[request.param]


@pytest.fixture
def start(agent: AcpAgent, gateway: RunningGateway, program: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts the agent behind the bridge with a model that runs these commands, one a turn, by these rules."""
    editors: list[Editor] = []

    def start(*commands: str, **rules: Any) -> Editor:
        home, model = Home(tmp_path), agent.model(*map(agent.run, commands))
        (tmp_path / "rules.json").write_text(json.dumps({"permission": rules}))
        place = {"PERMISSION_LEDGER_HOME": str(gateway.home)}
        environment = beside(program, {**agent.environment(home, model.url), **place})
        words = [*bridge("acp", "--rules", str(tmp_path / "rules.json")), str(program), *agent.words]
        editors.append(Editor(RpcClient(words, home, environment), model, home))
        return editors[-1]

    yield start
    for editor in editors:
        editor.client.close()
        editor.model.close()


async def test_a_call_that_is_allowed_in_the_inbox_runs_and_stands_in_the_log_as_it_was_asked(
    start: Start, agent: AcpAgent, gateway: RunningGateway
) -> None:
    editor = start("touch proof")
    ann = gateway.person()
    shown = await ann.answer_next(editor.session, "once")
    assert editor.stop_reason() == "end_turn"
    assert (editor.home.work / "proof").exists()
    [asked] = [row["event"] for row in await ann.events(editor.session) if row["type"] == "asked"]
    detail = asked["detail"]
    assert (asked["permission"], asked["tool_name"], detail["patterns"]) == ("bash", "bash", ["touch proof"])
    assert agent.asked("touch proof").items() <= detail["input"].items()
    assert (detail["cwd"], detail["metadata"]["judged_on"]) == (str(editor.home.work), "rawInput")
    assert shown["input"] == detail["input"]
    await ann.close()


async def test_a_call_that_is_rejected_does_not_run_and_the_words_of_it_do_not_reach_the_model(
    start: Start, gateway: RunningGateway
) -> None:
    editor = start("touch proof")
    ann = gateway.person()
    await ann.answer_next(editor.session, "reject", message="use the staging folder")
    editor.stop_reason()
    assert not (editor.home.work / "proof").exists()
    assert "staging folder" not in json.dumps(editor.model.results)
    [replied] = [row["event"] for row in await ann.events(editor.session) if row["type"] == "replied"]
    assert replied["reply"] == "reject"
    await ann.close()


def test_a_call_that_rules_allow_runs_and_the_editor_hears_nothing_of_it(start: Start) -> None:
    editor = start("touch proof", bash={"touch *": "allow"})
    assert editor.stop_reason() == "end_turn"
    assert ((editor.home.work / "proof").exists(), editor.client.said(ASK)) == (True, [])


@pytest.mark.agents("claude-acp")
async def test_claude_codes_hook_asks_in_an_editor_too_and_a_rejects_words_reach_the_model(
    gateway: RunningGateway, program: Path, tmp_path: Path
) -> None:
    adapter, home = AGENTS["claude-acp"], Home(tmp_path)
    model = adapter.model(adapter.run("touch proof"))
    place = {"PERMISSION_LEDGER_HOME": str(gateway.home)}
    environment = beside(program, {**adapter.environment(home, model.url), **place})
    command(home, environment, "bridge", "claude", "--install", "--yes", "--event", "PreToolUse", "--session", "hooked")
    editor = Editor(RpcClient([str(program)], home, environment), model, home)
    ann = gateway.person()
    await ann.answer_next("hooked", "reject", message="use the staging folder")
    editor.stop_reason()
    editor.client.close()
    model.close()
    assert (editor.client.said(ASK), (home.work / "proof").exists()) == ([], False)
    assert "use the staging folder" in json.dumps(model.results)
    await ann.close()
