"""The command of a hook with one event, asked before each call of a tool: Gemini CLI's and Qwen Code's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from workers.bridges.hook_entries import Entries
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.options import BridgeOptions, check_rules
from workers.cli.hook.hook_run import entries_of, hook_line, print_settings, run_hook
from workers.cli.hook.installation import InstallOptions, carry_out

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
