"""`bridge codex`: between an editor and `codex app-server`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from workers.bridges.codex.protocol import CodexWire
from workers.bridges.options import BridgeOptions
from workers.bridges.session_ids import new_id
from workers.cli.bridge.acp import run_racing
from workers.cli.bridge.base import bridge_command


@bridge_command(
    "codex",
    dialect="opencode",
    examples=(
        "permission-ledger bridge codex -- codex app-server",
        "permission-ledger bridge codex --rules opencode.json --interrupt -- codex app-server",
    ),
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.option("--interrupt", is_flag=True, help="A rejection that should stop the agent also ends its turn.")
def codex(*, options: BridgeOptions, command: Sequence[str], interrupt: bool) -> int:
    """Put the ledger between a client and `codex app-server`: command and file-change approvals are judged.

    Rules decide at once. What waits for a person is shown by the client too; whoever answers first counts. Calls are
    judged under OpenCode's names, bash and edit; the prefix that Codex would remember is what an `always` grants.
    """
    return run_racing(options, command, CodexWire(new_id("run"), interrupts=interrupt))
