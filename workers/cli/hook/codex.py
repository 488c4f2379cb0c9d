"""`hook codex`: for trying it by hand, and for the settings that run it fast."""

from __future__ import annotations

import click

from workers.bridges.hooks import codex as hook
from workers.bridges.hooks.settings import LIMIT_SECONDS, HookSettings
from workers.bridges.options import Options
from workers.cli.bridge.base import bridge_command
from workers.cli.hook.running import hook_line, limit_option, print_settings, run_hook, settings_option


@bridge_command(
    "codex",
    dialect="opencode",
    examples=(
        "permission-ledger hook codex --settings",
        "permission-ledger hook codex --settings --event PreToolUse --rules opencode.json",
        "permission-ledger hook codex --on-unreachable agent",
    ),
)
@limit_option(LIMIT_SECONDS)
@settings_option("~/.codex/hooks.json")
@click.option(
    "--event",
    type=click.Choice(hook.EVENTS),
    default="PermissionRequest",
    show_default=True,
    help="For --settings: what Codex would ask its user, or every call of a tool.",
)
def codex(*, options: Options, limit: float, settings: bool, event: str) -> int:
    """Answer one hook event of Codex: PermissionRequest or PreToolUse.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    """
    if settings:
        line = hook_line("codex", options, limit)
        print_settings([event], {"type": "command", "command": line, "timeout": int(limit)}, "")
        return 0
    return run_hook(hook.run, HookSettings("opencode"), options, limit)
