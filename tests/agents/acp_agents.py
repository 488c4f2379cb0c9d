"""Agents that editors start by ACP, each with a scripted model: command lines, and one shell command in their terms."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.agents import anthropic_model, openai_model
from tests.agents.rpc_client import Home
from tests.agents.scripted_model import Call, ScriptedModel

CALL: Final = "call_1"


class AcpAgent(NamedTuple):
    """`run` makes the turn in which the model calls the shell, `model` a model that says turns, `environment` its settings.

    `words` follow the program. `tool` is the agent's name of its shell tool, with the input that it asks about.
    """

    words: tuple[str, ...]
    run: Callable[[str], Any]
    model: Callable[..., Any]
    environment: Callable[[Home, str], dict[str, str]]
    asked: Callable[[str], dict[str, Any]]


def beside(program: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which the program finds what is installed with it, such as its Node.js."""
    return {**environment, "PATH": f"{program.parent}:{environment['PATH']}"}


def openai_turns(*turns: Any) -> openai_model.Model:
    return openai_model.Model(turns)


def anthropic_turns(*turns: Any) -> anthropic_model.Model:
    return anthropic_model.Model(turns)


def qwen(home: Home, url: str) -> dict[str, str]:
    return home.environment({"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": url, "OPENAI_MODEL": "scripted"})


def qwen_shell(command: str) -> list[openai_model.Call]:
    arguments = {"command": command, "is_background": False, "description": "work"}
    return [openai_model.use("run_shell_command", arguments, CALL)]


def copilot(home: Home, url: str) -> dict[str, str]:
    """Configure Copilot: with a custom model it needs no account, and offline it contacts nobody else."""
    provider = {"BASE_URL": url, "API_KEY": "none"}
    return home.environment(
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_MODEL": "gpt-5.4",
            **{f"COPILOT_PROVIDER_{name}": value for name, value in provider.items()},
        }
    )


def kimi(home: Home, url: str) -> dict[str, str]:
    """Configure Kimi: with a provider in its settings it needs no account."""
    kept = home.folder / "home" / ".kimi-code"
    kept.mkdir(exist_ok=True)
    (kept / "config.toml").write_text(
        'default_model = "scripted"\ntelemetry = false\n'
        f'[providers.test]\ntype = "openai"\nbase_url = "{url}"\napi_key = "none"\n'
        '[models.scripted]\nprovider = "test"\nmodel = "scripted"\nmax_context_size = 200000\n'
    )
    return home.environment({})


def claude(home: Home, url: str) -> dict[str, str]:
    """Configure Claude: its settings name the mode that asks; without them 0.101.0 starts in `auto`."""
    kept = home.folder / "home" / ".claude"
    kept.mkdir(exist_ok=True)
    (kept / "settings.json").write_text(json.dumps({"permissions": {"defaultMode": "default"}}))
    quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
    return home.environment(
        {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", **dict.fromkeys(quiet, "1")},
    )


def codex(home: Home, url: str) -> dict[str, str]:
    return {**home.codex(url), "INITIAL_AGENT_MODE": "read-only"}


def codex_shell(command: str) -> list[Call]:
    """Codex asks about what its sandbox would not let run."""
    beyond = {"sandbox_permissions": "require_escalated", "justification": "work"}
    return [Call("exec_command", {"cmd": command, **beyond}, CALL)]


AGENTS: Final = {
    "qwen": AcpAgent(
        ("--acp", "--approval-mode", "default"),
        qwen_shell,
        openai_turns,
        qwen,
        lambda command: {"command": command, "is_background": False, "description": "work"},
    ),
    "copilot": AcpAgent(
        ("--acp",),
        lambda command: [openai_model.bash(command, CALL)],
        openai_turns,
        copilot,
        lambda command: {"command": command, "commands": [command]},
    ),
    "kimi": AcpAgent(
        ("acp",),
        lambda command: [openai_model.use("Bash", {"command": command, "description": "work"}, CALL)],
        openai_turns,
        kimi,
        lambda command: {"command": command, "description": "work"},
    ),
    "claude-acp": AcpAgent(
        (),
        lambda command: [anthropic_model.bash(command, CALL)],
        anthropic_turns,
        claude,
        lambda command: {"command": command, "description": "work"},
    ),
    "codex-acp": AcpAgent(
        (),
        codex_shell,
        ScriptedModel,
        codex,
        lambda command: {"command": command},
    ),
}
