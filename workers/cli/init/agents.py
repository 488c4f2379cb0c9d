"""The agents on this machine, the files of their settings and rules, and how each is connected."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from workers.bridges.claude import hook_settings
from workers.bridges.codex.trust import forgetting
from workers.bridges.hook_entries import Entries
from workers.bridges.hooks import gemini, qwen
from workers.bridges.hooks.settings import LIMIT_SECONDS
from workers.bridges.options import BridgeOptions
from workers.bridges.settings_file import SettingsChange, planned
from workers.cli.bridge.claude import hook_words, settings_path
from workers.cli.hook import codex
from workers.cli.hook.before_tool import gemini_settings, qwen_settings, tool_entries

SCOPES: Final = ("project", "user")
"""For runs in this project alone; for every run of the agent."""


class KnownAgent(NamedTuple):
    """An agent that the ledger can be put before.

    `hook` returns the file and the entries of a scope. Agents without one are started through a bridge, by the line
    `start`. `rules` are the files in a project that hold rules of its dialect. `then` returns the line of a scope that
    is needed after the hook is written; `left_behind` returns the changes of other files that removing the hook of a
    scope brings with it.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    dialect: str
    rules: tuple[str, ...]
    hook: Callable[[str], tuple[Path, Entries]] | None
    start: str | None = None
    then: Callable[[str], str] | None = None
    left_behind: Callable[[str], list[SettingsChange]] | None = None
    takes_comments: bool = False

    def program(self) -> str | None:
        """Return the path of the first program on the PATH."""
        return next((found for name in self.programs if (found := shutil.which(name)) is not None), None)

    def change(self, scope: str, *, remove: bool = False) -> SettingsChange | None:
        """Return the change of the agent's settings; None for an agent without hooks. Raises BridgeError."""
        if self.hook is None:
            return None
        path, entries = self.hook(scope)
        return planned(path, self.name, None if remove else entries, comments=self.takes_comments)


def _claude(scope: str) -> tuple[Path, Entries]:
    # `local`: the settings of one person in a project, which nobody commits.
    path = settings_path("user" if scope == "user" else "local", Path.cwd())
    return path, hook_settings.hook_settings(hook_words(BridgeOptions(), "local"), way=hook_settings.BOTH)


def _codex(scope: str) -> tuple[Path, Entries]:
    return codex.settings_path(scope), codex.entries("PermissionRequest", _OPENCODE, LIMIT_SECONDS, scope)


def _trust_codex(scope: str) -> str:
    """Return the line that tells Codex to trust the hook; Codex alone can compute the hash that it compares."""
    return f"permission-ledger hook codex --install --trust --scope {scope}"


def _forget_codex(scope: str) -> list[SettingsChange]:
    return [forgetting(codex.config_path(), codex.settings_path(scope))]


def _before_tool(hook: Any, path_of: Callable[[str], Path]) -> Callable[[str], tuple[Path, Entries]]:
    return lambda scope: (path_of(scope), tool_entries(hook, _OPENCODE, LIMIT_SECONDS, scope))


_OPENCODE: Final = BridgeOptions(dialect="opencode")

KNOWN: Final = (
    KnownAgent("claude", "Claude Code", ("claude",), "claude", (".claude/settings.json",), _claude),
    KnownAgent(
        "codex",
        "Codex",
        ("codex",),
        "opencode",
        (),
        _codex,
        then=_trust_codex,
        left_behind=_forget_codex,
    ),
    KnownAgent(
        "gemini",
        "Gemini CLI",
        ("gemini",),
        "opencode",
        (),
        _before_tool(gemini, gemini_settings),
        takes_comments=True,
    ),
    KnownAgent("qwen", "Qwen Code", ("qwen",), "opencode", (), _before_tool(qwen, qwen_settings), takes_comments=True),
    KnownAgent(
        "opencode",
        "OpenCode",
        ("opencode",),
        "opencode",
        ("opencode.json", "opencode.jsonc"),
        None,
        start="permission-ledger bridge opencode -- opencode serve --port 4096",
    ),
    KnownAgent(
        "codelia",
        "Codelia",
        ("codelia",),
        "codelia",
        (".codelia/config.json",),
        None,
        start="permission-ledger bridge codelia -- bun PATH/packages/runtime/src/index.ts",
    ),
    KnownAgent(
        "copilot",
        "Copilot CLI",
        ("copilot",),
        "opencode",
        (),
        None,
        start="permission-ledger bridge acp -- copilot --acp",
    ),
)
"""Zed and other editors start an agent through `bridge acp`; they have a guide instead."""

NAMES: Final = tuple(agent.name for agent in KNOWN)


def chosen(names: tuple[str, ...]) -> tuple[KnownAgent, ...]:
    """Return the agents of these names, else those whose program is on the PATH."""
    return tuple(agent for agent in KNOWN if (agent.name in names if names else agent.program() is not None))
