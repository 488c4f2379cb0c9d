"""The hooks of Codex, Gemini CLI and Qwen Code as the very lines that their settings name run them: never silence by mistake."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.forks import run, start_line
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until_async
from workers.bridges.session_ids import new_id

SESSION: Final = "7f3a"
MODULES_MAX: Final = ("asyncio", "ssl", "http", "typing", "socket", "pathlib", "urllib", "hashlib", "msgspec", "click")
"""Modules that would slow down the start of a hook."""

LEAVES: Final = {"ledger", "ledger.core", "ledger.core.regular_files"}
"""The parts of the ledger that a hook reads files with; they import the fast part of the standard library alone."""

RULES: Final = {"bash": {"*": "ask", "ls *": "allow", "rm *": "deny"}, "edit": {"*": "ask", "docs/*": "allow"}}


class Hooks:
    """Runs the installed lines on events."""

    def __init__(self, gateway: RunningGateway, rules: Path) -> None:
        self.gateway = gateway
        self.rules = rules

    def line(self, agent: str, *words: str) -> str:
        """As `bridge AGENT --settings` prints it."""
        command = ["bridge", agent, "--settings", "--rules", str(self.rules), *words]
        printed = run(command, env=self.gateway.environment).stdout
        [[entry]] = json.loads(printed)["hooks"].values()
        line: str = entry["hooks"][0]["command"]
        return line

    def start(self, agent: str, event: dict[str, Any], *words: str) -> subprocess.Popen[str]:
        return start_line(self.line(agent, *words), event, self.gateway.environment)

    def __call__(self, agent: str, event: dict[str, Any], *words: str) -> tuple[int, Any]:
        return ended(self.start(agent, event, *words))


def ended(process: subprocess.Popen[str]) -> tuple[int, Any]:
    """Exit code and answer, None where it is silent."""
    out, _ = process.communicate(timeout=60)
    return process.returncode, json.loads(out) if out else None


@pytest.fixture
def hooks(gateway: RunningGateway, tmp_path: Path) -> Hooks:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"permission": RULES}))
    return Hooks(gateway, rules)


def codex(command: str, name: str = "PermissionRequest", tool: str = "Bash", **more: Any) -> dict[str, Any]:
    """An event as Codex sends it: a request for permission has no id of a call, the other one has."""
    said = {"session_id": SESSION, "turn_id": "turn_1", "cwd": "/srv/shop", "hook_event_name": name}
    call_id = {"tool_use_id": "call_a"} if name == "PreToolUse" else {}
    call = {"permission_mode": "default", "tool_name": tool, "tool_input": {"command": command}}
    return {**said, **call, **call_id, **more}


def gemini(tool: str, **tool_input: Any) -> dict[str, Any]:
    said = {"session_id": SESSION, "cwd": "/srv/shop", "hook_event_name": "BeforeTool", "timestamp": "2026-11-21"}
    return {**said, "tool_name": tool, "tool_input": tool_input}


def qwen(tool: str, **tool_input: Any) -> dict[str, Any]:
    """An event as Qwen Code sends it: an id of its own for each run of the hook, and the model's of the call."""
    said = {"session_id": SESSION, "cwd": "/srv/shop", "hook_event_name": "PreToolUse", "permission_mode": "default"}
    ids = {"tool_use_id": new_id("toolu"), "tool_call_id": "call_a"}
    return {**said, **ids, "tool_name": tool, "tool_input": tool_input}


def qwen_said(behaviour: str, reason: str) -> dict[str, Any]:
    said = {"permissionDecision": behaviour, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}


def permission(behaviour: str, **more: Any) -> dict[str, Any]:
    decision = {"behavior": behaviour, **more}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


def patch(path: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b\n*** End Patch"


def test_rules_decide_what_codex_would_ask_its_user(hooks: Hooks) -> None:
    assert hooks("codex", codex("ls src")) == (0, permission("allow"))
    code, denied = hooks("codex", codex("ls && rm -rf src"))
    decision = denied["hookSpecificOutput"]["decision"]
    assert (code, decision["behavior"], "rm" in decision["message"]) == (0, "deny", True)
    assert hooks("codex", codex(patch("docs/a"), tool="apply_patch")) == (0, permission("allow"))


def test_before_each_call_codex_hears_of_a_denial_only(hooks: Hooks) -> None:
    assert hooks("codex", codex("ls src", "PreToolUse")) == (0, None)
    code, denied = hooks("codex", codex("rm src", "PreToolUse", tool_use_id="call_b"))
    said = denied["hookSpecificOutput"]
    assert (code, said["hookEventName"], said["permissionDecision"]) == (0, "PreToolUse", "deny")


async def test_a_corrected_command_runs_in_codex_where_it_can_be_handed_over(
    hooks: Hooks, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    corrected = {"command": "git push --dry-run"}
    asking = hooks.start("codex", codex("git push", "PreToolUse"))
    await ann.answer_next(SESSION, "once", updated_input=corrected)
    said = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": corrected}
    assert ended(asking) == (0, {"hookSpecificOutput": said})
    asking = hooks.start("codex", codex("git push"))
    await ann.answer_next(SESSION, "once", updated_input=corrected)
    assert ended(asking) == (0, permission("deny", message='allowed only as: {"command": "git push --dry-run"}'))
    await ann.close()


async def test_where_codex_may_connect_to_is_not_decided_by_rules_for_commands(
    hooks: Hooks, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    asking = hooks.start("codex", codex("ls", tool_input={"command": "ls", "description": "network-access a.example"}))
    shown = await ann.answer_next(SESSION, "once")
    assert ended(asking) == (0, permission("allow"))
    assert (shown["permission"], shown["patterns"]) == ("network", ["a.example"])
    await ann.close()


@pytest.mark.parametrize(
    ("event", "behaviour"),
    [
        (gemini("run_shell_command", command="ls src", dir_path="."), "allow"),
        (gemini("run_shell_command", command="rm src"), "deny"),
        (gemini("write_file", file_path="docs/a", content="x"), "allow"),
        (gemini("replace", file_path="/srv/shop/docs/a", old_string="a", new_string="b"), "allow"),
    ],
)
def test_rules_decide_about_geminis_tools(hooks: Hooks, event: dict[str, Any], behaviour: str) -> None:
    code, said = hooks("gemini", event)
    assert (code, said["decision"]) == (0, behaviour)


async def test_a_corrected_command_runs_in_gemini_unless_something_was_taken_out(
    hooks: Hooks, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    asked = gemini("run_shell_command", command="git push", dir_path="/srv/shop/a")
    asking = hooks.start("gemini", asked)
    shown = await ann.answer_next(SESSION, "once", updated_input={"command": "git pull", "workdir": "/srv/shop/a"})
    specific = {"hookEventName": "BeforeTool", "tool_input": {"command": "git pull", "dir_path": "/srv/shop/a"}}
    assert ended(asking) == (0, {"decision": "allow", "hookSpecificOutput": specific})
    assert shown["input"] == {"command": "git push", "workdir": "/srv/shop/a"}
    asking = hooks.start("gemini", asked)
    await ann.answer_next(SESSION, "once", updated_input={"command": "git pull"})
    assert ended(asking) == (0, {"decision": "deny", "reason": 'allowed only as: {"command": "git pull"}'})
    await ann.close()


async def test_what_gemini_would_fetch_is_shown_as_its_prompt(hooks: Hooks, gateway: RunningGateway) -> None:
    hooks.rules.write_text(json.dumps({"permission": {"webfetch": "ask"}}))
    ann = gateway.person()
    asking = hooks.start("gemini", gemini("web_fetch", prompt="read https://a.example"))
    shown = await ann.answer_next(SESSION, "reject", message="not that page")
    assert (shown["permission"], shown["patterns"]) == ("webfetch", ["read https://a.example"])
    code, said = ended(asking)
    assert (code, said["decision"], "not that page" in said["reason"]) == (0, "deny", True)
    await ann.close()


@pytest.mark.parametrize(
    ("tool", "tool_input", "behaviour"),
    [
        ("run_shell_command", {"command": "ls src", "directory": "/srv/shop/a"}, "allow"),
        ("run_shell_command", {"command": "ls src && rm src"}, "deny"),
        ("monitor", {"command": "rm src"}, "deny"),
        ("write_file", {"file_path": "/srv/shop/docs/a", "content": "x"}, "allow"),
        ("edit", {"file_path": "/srv/shop/docs/a", "old_string": "a", "new_string": "b"}, "allow"),
        ("notebook_edit", {"notebook_path": "/srv/shop/docs/a.ipynb", "new_source": "x"}, "allow"),
        ("web_fetch", {"url": "https://a.example/x", "prompt": "read"}, "deny"),
    ],
)
def test_rules_decide_about_qwens_tools(hooks: Hooks, tool: str, tool_input: dict[str, Any], behaviour: str) -> None:
    hooks.rules.write_text(json.dumps({"permission": {**RULES, "webfetch": "deny"}}))
    code, said = hooks("qwen", qwen(tool, **tool_input))
    assert (code, said["hookSpecificOutput"]["permissionDecision"]) == (0, behaviour)


async def test_an_always_for_qwen_grants_the_command_and_not_the_shell(hooks: Hooks, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = hooks.start("qwen", qwen("run_shell_command", command="git push origin main"))
    shown = await ann.answer_next(SESSION, "always")
    code, _ = ended(asking)
    assert (code, shown["permission"], shown["always"]) == (0, "bash", ["git push *"])
    assert (shown["tool"]["call_id"], shown["cwd"]) == ("call_a", "/srv/shop")
    assert (
        hooks("qwen", qwen("run_shell_command", command="git push"))[1]["hookSpecificOutput"]["permissionDecision"]
        == "allow"
    )
    asking = hooks.start("qwen", qwen("run_shell_command", command="git fetch"))
    await ann.answer_next(SESSION, "reject", message="not now")
    code, said = ended(asking)
    assert (code, said["hookSpecificOutput"]["permissionDecision"]) == (0, "deny")
    assert "not now" in said["hookSpecificOutput"]["permissionDecisionReason"]
    await ann.close()


async def test_a_corrected_command_is_told_to_qwen_and_the_first_one_does_not_run(
    hooks: Hooks, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    asking = hooks.start("qwen", qwen("run_shell_command", command="git push", directory="/srv/shop/a"))
    shown = await ann.answer_next(SESSION, "once", updated_input={"command": "git pull", "workdir": "/srv/shop/a"})
    corrected = '{"command": "git pull", "directory": "/srv/shop/a"}'
    assert ended(asking) == (0, qwen_said("deny", f"allowed only as: {corrected}"))
    assert shown["input"] == {"command": "git push", "workdir": "/srv/shop/a"}
    await ann.close()


@pytest.mark.usefixtures("no_gateway")
def test_without_a_gateway_qwen_is_told_to_ask_its_user_where_the_settings_say_so(
    hooks: Hooks, gateway: RunningGateway
) -> None:
    event = qwen("run_shell_command", command="ls")
    code, said = hooks("qwen", event, "--grace", "0", "--on-unreachable", "agent")
    assert (code, said["hookSpecificOutput"]["permissionDecision"]) == (0, "ask")


@pytest.mark.parametrize(
    ("agent", "event"), [("codex", codex("git push")), ("gemini", gemini("run_shell_command", command="git push"))]
)
async def test_before_the_agents_limit_the_answer_is_to_ask_again_and_asking_again_attaches(
    hooks: Hooks, gateway: RunningGateway, agent: str, event: dict[str, Any]
) -> None:
    ann = gateway.person()
    code, said = hooks(agent, event, "--limit", "1")
    assert (code, "still pending, ask again: " in json.dumps(said)) == (0, True)
    again = hooks.start(agent, event)
    await wait_until_async(gateway.is_waited_for, "the second hook to attach")
    [shown] = await ann.pending(SESSION)
    await ann.reply(SESSION, shown["request_id"], "once")
    assert ended(again) == (0, permission("allow") if agent == "codex" else {"decision": "allow"})
    await ann.close()


@pytest.mark.usefixtures("no_gateway")
@pytest.mark.parametrize(
    ("agent", "event"), [("codex", codex("ls")), ("gemini", gemini("run_shell_command", command="ls"))]
)
def test_without_a_gateway_nothing_is_allowed(
    hooks: Hooks, gateway: RunningGateway, agent: str, event: dict[str, Any]
) -> None:
    code, said = hooks(agent, event, "--grace", "0")
    assert (code, '"deny"' in json.dumps(said), "nobody could be asked" in json.dumps(said)) == (0, True, True)
    assert f"nothing listens at `{gateway.address}`; start the gateway with `permission-ledger up`" in json.dumps(said)
    assert hooks(agent, event, "--grace", "0", "--on-unreachable", "agent") == (0, None)


@pytest.mark.parametrize("agent", ["codex", "gemini", "qwen"])
@pytest.mark.parametrize("broken", ["", "[]", '{"hook_event_name": "Stop"}', '{"hook_event_name": "BeforeTool"}'])
def test_what_cannot_be_read_blocks_the_call(hooks: Hooks, agent: str, broken: str) -> None:
    installed = shlex.split(hooks.line(agent).removesuffix(" || exit 2"))[2:]
    for words in (installed, ["hook", agent]):
        done = run(words, broken, env=hooks.gateway.environment)
        assert (done.returncode, done.stdout) == (2, "")
        assert "the tool does not run" in done.stderr


@pytest.mark.parametrize(
    ("agent", "event"),
    [
        ("codex", codex("ls x", "PreToolUse")),
        ("gemini", gemini("run_shell_command", command="ls x")),
        ("qwen", qwen("run_shell_command", command="ls x")),
    ],
)
def test_a_hook_that_rules_decide_imports_nothing_slow(hooks: Hooks, agent: str, event: dict[str, Any]) -> None:
    assert hooks(agent, event)[0] == 0
    interpreter, isolated, script, *words = hooks.line(agent).removesuffix(" || exit 2").split()
    done = subprocess.run(
        [interpreter, isolated, "-X", "importtime", script, *words],
        input=json.dumps(event),
        env=hooks.gateway.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert imported & set(MODULES_MAX) == set()
    assert {one for one in imported if one.partition(".")[0] == "ledger"} <= LEAVES
