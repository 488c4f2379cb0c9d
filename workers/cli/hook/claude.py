"""`hook claude`: for trying it by hand; what `bridge claude --install` writes starts faster."""

from __future__ import annotations

import sys

import click

from workers.bridges.hooks import claude as hook
from workers.bridges.hooks.settings import LIMIT_SECONDS, HookSettings
from workers.bridges.options import Options
from workers.cli.bridge.base import bridge_command


@bridge_command(
    "claude",
    dialect="claude",
    other_dialects=("betcode",),
    examples=(
        "permission-ledger hook claude",
        "permission-ledger hook claude --rules .claude/settings.json --on-unreachable agent",
    ),
)
@click.option(
    "--limit",
    type=click.FloatRange(1, 86400),
    default=LIMIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="The client's own limit for the hook; a moment before it the answer is `still pending, ask again`.",
)
def claude(*, options: Options, limit: float) -> int:
    """Answer one hook event of Claude Code: a call that is asked about, one that ran, or the end of a turn or session.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    """
    settings = HookSettings(options.dialect)
    settings.session, settings.project, settings.rules = options.session, options.project, options.rules
    settings.on_unreachable, settings.grace, settings.limit = options.on_unreachable, options.grace, limit
    try:
        return hook.run(settings)
    except Exception as error:  # noqa: BLE001 - any failure must block the call
        sys.stderr.write(f"permission-ledger: the hook failed, so the tool does not run: {error}\n")
        return 2
