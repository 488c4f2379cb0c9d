"""`hook gemini` and `hook qwen`, which have one event each, before a tool runs: by hand, and for the settings that run them fast."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from workers.bridges.hook_entries import Entries
from workers.bridges.hooks import gemini as gemini_hook
from workers.bridges.hooks import qwen as qwen_hook
from workers.bridges.hooks.settings import LIMIT_SECONDS, HookSettings
from workers.bridges.options import BridgeOptions, check_rules
from workers.cli.bridge.base import bridge_command
from workers.cli.hook.hook_run import entries_of, hook_line, limit_option, print_settings, run_hook, settings_option
from workers.cli.hook.installation import InstallOptions, carry_out, install_options

_MILLISECONDS: Final = 1000


class ToolHook(Protocol):
    """A module of workers.bridges.hooks; its AGENT is the command's name too."""

    @property
    def AGENT(self) -> str: ...  # noqa: N802 - a constant of the module

    @property
    def EVENT(self) -> str: ...  # noqa: N802 - a constant of the module

    @property
    def run(self) -> Callable[[HookSettings], int]: ...


def before_tool(
    hook: ToolHook,
    settings_path: Callable[[str], Path],
    options: BridgeOptions,
    limit: float,
    *,
    settings: bool,
    wanted: InstallOptions,
) -> int:
    """Answer one event, print the settings, or change them at the path of a scope; the exit code. Raises BridgeError."""
    if not (settings or wanted.is_anything):
        return run_hook(hook.run, HookSettings("opencode"), options, limit)
    if settings or wanted.install:
        check_rules(options)
    entries = tool_entries(hook, options, limit, wanted.scope)
    if settings:
        print_settings(entries)
        return 0
    return carry_out(hook.AGENT, wanted, entries, settings_path, comments=True)


def tool_entries(hook: ToolHook, options: BridgeOptions, limit: float, scope: str) -> Entries:
    """Return the hook's entries for the settings of a scope. Raises BridgeError."""
    # Qwen Code reads less than 1000 as seconds, and older versions do not; in milliseconds no limit is that small.
    line = hook_line(hook.AGENT, options, limit, scope)
    entry = {"type": "command", "command": line, "timeout": int(limit * _MILLISECONDS)}
    return entries_of([hook.EVENT], entry, "*")


@bridge_command(
    "gemini",
    dialect="opencode",
    examples=(
        "permission-ledger hook gemini --install",
        "permission-ledger hook gemini --uninstall",
        "permission-ledger hook gemini --install --scope project --rules opencode.json",
        "permission-ledger hook gemini --on-unreachable agent",
    ),
)
@limit_option(LIMIT_SECONDS)
@settings_option("~/.gemini/settings.json")
@install_options
def gemini(*, options: BridgeOptions, limit: float, settings: bool, wanted: InstallOptions) -> int:
    """Answer one hook event of Gemini CLI: BeforeTool.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    With --install every run of Gemini CLI asks.
    """
    return before_tool(gemini_hook, gemini_settings, options, limit, settings=settings, wanted=wanted)


def gemini_settings(scope: str) -> Path:
    """Return the path of Gemini CLI's settings of a scope: `user` or `project`."""
    named = os.environ.get("GEMINI_CLI_HOME")
    home = Path(named) if named else Path.home()
    return (home if scope == "user" else Path.cwd()) / ".gemini" / "settings.json"


@bridge_command(
    "qwen",
    dialect="opencode",
    examples=(
        "permission-ledger hook qwen --install",
        "permission-ledger hook qwen --uninstall",
        "permission-ledger hook qwen --install --scope project --rules opencode.json",
        "permission-ledger hook qwen --on-unreachable agent",
    ),
)
@limit_option(LIMIT_SECONDS)
@settings_option("~/.qwen/settings.json")
@install_options
def qwen(*, options: BridgeOptions, limit: float, settings: bool, wanted: InstallOptions) -> int:
    """Answer one hook event of Qwen Code: PreToolUse.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    With --install every run of Qwen Code asks.
    """
    return before_tool(qwen_hook, qwen_settings, options, limit, settings=settings, wanted=wanted)


def qwen_settings(scope: str) -> Path:
    """Return the path of Qwen Code's settings of a scope: `user` or `project`."""
    if scope == "project":
        return Path.cwd() / ".qwen" / "settings.json"
    named = os.environ.get("QWEN_HOME")
    return (Path(named).expanduser() if named else Path.home() / ".qwen") / "settings.json"
