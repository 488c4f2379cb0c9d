"""`--profile` of bridges and hooks: the rules of a file are judged as their own program would, where that is asked for."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.gateways import RunningGateway
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.options import BridgeOptions, opening
from workers.bridges.tool_calls import GatewayJudge, ToolCall
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import BridgeError

BRIDGES = (
    ("bridge", "acp", "--", "agent"),
    ("bridge", "codex", "--", "codex"),
    ("bridge", "opencode", "--", "opencode"),
    ("bridge", "codelia", "--", "codelia"),
    ("bridge", "claude", "--", "claude"),
)
HOOKS = tuple(("bridge", agent, "--settings") for agent in ("codex", "gemini", "qwen"))


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"permissions": {"allow": ["Bash(git *)"]}}))
    return str(path)


@pytest.mark.parametrize(("profile", "behaviour"), [("faithful", "allow"), (None, "deny"), ("hardened", "deny")])
async def test_a_bridge_judges_in_the_profile_that_it_was_told(
    gateway: RunningGateway, tmp_path: Path, profile: str | None, behaviour: str
) -> None:
    path = tmp_path / "opencode.json"
    # Whatever is not allowed is denied, so that no person is needed to tell the profiles apart.
    path.write_text(json.dumps({"permission": {"bash": {"*": "deny", "env *": "allow"}}}))
    options = BridgeOptions(dialect="opencode", rules=str(path), profile=profile)
    async with GatewayClient() as client:
        judge = GatewayJudge(client, options, "ses_1", agent="a")
        verdict = await judge.judge(ToolCall("r1", "bash", {"command": "env ls"}))
    assert verdict.behaviour == behaviour


def test_the_profile_goes_with_the_rules_of_a_hook(rules: str) -> None:
    settings = HookSettings.read(["--rules", rules, "--profile", "faithful"], "claude")
    assert settings.opening({})["options"] == {"profile": "faithful"}
    assert "options" not in HookSettings.read(["--rules", rules], "claude").opening({})


@pytest.mark.parametrize("words", BRIDGES + HOOKS)
def test_a_profile_without_rules_is_refused(words: tuple[str, ...]) -> None:
    told = CommandLine("memory://")(*words[:2], "--profile", "faithful", *words[2:], code=2)
    assert "`--profile` needs `--rules FILE`" in told.err


@pytest.mark.parametrize("words", BRIDGES + HOOKS)
def test_a_profile_that_is_none_is_refused(words: tuple[str, ...], rules: str) -> None:
    told = CommandLine("memory://")(*words[:2], "--rules", rules, "--profile", "soft", *words[2:], code=2)
    assert "'soft' is not one of 'hardened', 'faithful'" in told.err


@pytest.mark.parametrize("words", HOOKS)
def test_the_line_that_is_installed_says_the_profile(words: tuple[str, ...], rules: str) -> None:
    Path(rules).write_text(json.dumps({"permission": {"bash": "ask"}, "permissions": {"ask": ["Bash"]}}))
    printed = CommandLine("memory://")(*words, "--rules", rules, "--profile", "faithful")
    line = next(iter(json.loads(printed.out)["hooks"].values()))[0]["hooks"][0]["command"]
    said = shlex.split(line)
    assert said[said.index("--profile") + 1] == "faithful"


def test_neither_bridge_nor_hook_opens_a_session_with_a_profile_alone() -> None:
    with pytest.raises(BridgeError, match="needs `--rules FILE`"):
        opening(BridgeOptions(profile="faithful"), agent="a", cwd=None)
    with pytest.raises(BridgeError, match="needs `--rules FILE`"):
        HookSettings.read(["--profile", "faithful"], "claude")
