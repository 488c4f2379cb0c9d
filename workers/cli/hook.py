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

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    `bridge claude --install` writes it into Claude Code's settings.
    """
    return _answer(claude_hook.run, options, limit, hands_on=event == BOTH)


@bridge_command("codex", "permission-ledger hook codex --on-unreachable agent", dialect="opencode")
@limit_option
def codex(*, options: BridgeOptions, limit: float) -> int:
    """Answer one hook event of Codex: PermissionRequest or PreToolUse.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    `bridge codex --install` writes it into Codex's hooks.
    """
    return _answer(codex_hook.run, options, limit)


@bridge_command("gemini", "permission-ledger hook gemini --on-unreachable agent", dialect="opencode")
@limit_option
def gemini(*, options: BridgeOptions, limit: float) -> int:
    """Answer one hook event of Gemini CLI: BeforeTool.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    `bridge gemini --install` writes it into Gemini CLI's settings.
    """
    return _answer(partial(before_tool.run, "gemini"), options, limit)


@bridge_command("qwen", "permission-ledger hook qwen --on-unreachable agent", dialect="opencode")
@limit_option
def qwen(*, options: BridgeOptions, limit: float) -> int:
    """Answer one hook event of Qwen Code: PreToolUse.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    `bridge qwen --install` writes it into Qwen Code's settings.
    """
    return _answer(partial(before_tool.run, "qwen"), options, limit)


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
