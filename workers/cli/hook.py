"""`hook`: the commands that agents call before a tool runs, tried by hand; a team's settings call them by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import click

from workers.bridges.hook_entries import BOTH
from workers.bridges.hooks import before_tool
from workers.bridges.hooks import claude as claude_hook
from workers.bridges.hooks import codex as codex_hook
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.options import BridgeOptions
from workers.cli.bridge_options import bridge_command, limit_option
from workers.cli.lazy import LazyGroup
from workers.cli.options import DocumentedCommand


def _answer(run: Callable[[HookSettings], int], options: BridgeOptions, limit: float, *, hands_on: bool = False) -> int:
    """Answer one event and return the exit code: 2 blocks the call, as does every failure."""
    settings = HookSettings(options.dialect, limit)
    settings.hands_on = hands_on
    for name in ("session", "project", "rules", "attended", "unattended", "profile", "on_unreachable", "grace"):
        setattr(settings, name, getattr(options, name))
    try:
        return run(settings)
    except Exception as error:  # noqa: BLE001 - any failure must block the call
        sys.stderr.write(f"permission-ledger: the hook failed, so the tool does not run: {error}\n")
        return 2


@bridge_command(
    "claude",
    "permission-ledger hook claude",
    "permission-ledger hook claude --rules .claude/settings.json --on-unreachable agent",
    dialect="claude",
    other_dialects=("betcode",),
)
@limit_option
@click.option(
    "--event", type=click.Choice([BOTH]), help="As `bridge claude --install` writes it: the terminal is asked too."
)
def claude(*, options: BridgeOptions, limit: float, event: str | None) -> int:
    """Answer one hook event of Claude Code: a call that is asked about, one that ran, or the end of a turn or session.

    Whatever fails is a deny, or exit code 2, which blocks the call. `bridge claude --install` writes it into the settings.
    """
    return _answer(claude_hook.run, options, limit, hands_on=event == BOTH)


def _command(name: str, title: str, events: str, run: Callable[[HookSettings], int]) -> DocumentedCommand:
    def answer(*, options: BridgeOptions, limit: float) -> int:
        return _answer(run, options, limit)

    answer.__doc__ = f"""Answer one hook event of {title}: {events}.

    Whatever fails is a deny, or exit code 2, which blocks the call. `bridge {name} --install` writes it into the settings.
    """
    example = f"permission-ledger hook {name} --on-unreachable agent"
    return bridge_command(name, example, dialect="opencode")(limit_option(answer))


codex = _command("codex", "Codex", "PermissionRequest or PreToolUse", codex_hook.run)
gemini = _command("gemini", "Gemini CLI", "BeforeTool", partial(before_tool.run, "gemini"))
qwen = _command("qwen", "Qwen Code", "PreToolUse", partial(before_tool.run, "qwen"))

_HOOKS: Final = "Hooks"
COMMANDS: Final = {
    "claude": ("workers.cli.hook:claude", "Claude Code: PreToolUse, PermissionRequest, PostToolUse.", _HOOKS),
    "codex": ("workers.cli.hook:codex", "Codex: PermissionRequest, PreToolUse.", _HOOKS),
    "gemini": ("workers.cli.hook:gemini", "Gemini CLI: BeforeTool.", _HOOKS),
    "qwen": ("workers.cli.hook:qwen", "Qwen Code: PreToolUse.", _HOOKS),
}

hook = LazyGroup(
    COMMANDS,
    name="hook",
    help="Answer one hook event of an agent: its JSON on stdin, the answer on stdout.",
)
