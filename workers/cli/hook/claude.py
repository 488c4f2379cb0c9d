"""`hook claude`: to try it by hand; the line that `bridge claude --install` writes starts faster."""

from __future__ import annotations

import click

from workers.bridges.claude.hook_settings import BOTH
from workers.bridges.hooks import claude as hook
from workers.bridges.hooks.settings import LIMIT_SECONDS, HookSettings
from workers.bridges.options import BridgeOptions
from workers.cli.bridge.base import bridge_command
from workers.cli.hook.hook_run import limit_option, run_hook


@bridge_command(
    "claude",
    dialect="claude",
    other_dialects=("betcode",),
    examples=(
        "permission-ledger hook claude",
        "permission-ledger hook claude --rules .claude/settings.json --on-unreachable agent",
    ),
)
@limit_option(LIMIT_SECONDS)
@click.option(
    "--event", type=click.Choice([BOTH]), help="As `bridge claude --install` writes it: the terminal is asked too."
)
def claude(*, options: BridgeOptions, limit: float, event: str | None) -> int:
    """Answer one hook event of Claude Code: a call that is asked about, one that ran, or the end of a turn or session.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    """
    settings = HookSettings(options.dialect)
    settings.hands_on = event == BOTH
    return run_hook(hook.run, settings, options, limit)
