"""`bridge acp` and `bridge codex`: between an editor and an agent that asks by JSON-RPC lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import click

from workers.bridges.acp import AcpWire
from workers.bridges.codex.protocol import CodexWire
from workers.bridges.options import BridgeOptions
from workers.bridges.race import RacingBridge
from workers.bridges.rpc import Wire
from workers.bridges.session_ids import new_id
from workers.bridges.startup import run_bridge
from workers.bridges.stdio import tell
from workers.cli.bridge.base import bridge_command
from workers.transport.errors import BridgeError
from workers.transport.gateway_client import GatewayClient


@bridge_command(
    "acp",
    dialect="opencode",
    examples=(
        "permission-ledger bridge acp -- gemini --acp",
        "permission-ledger bridge acp --rules opencode.json -- opencode acp",
    ),
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
def acp(*, options: BridgeOptions, command: Sequence[str]) -> int:
    """Put the ledger between an editor and an ACP agent: name this command where the editor names the agent's.

    Rules decide at once. What waits for a person is shown by the editor too; whoever answers first, there or in the
    inbox, counts. Tools are judged under OpenCode's names: bash, edit, read, webfetch.
    """
    return run_racing(options, command, AcpWire(PurePath(command[0]).name or "acp", new_id("run"), tell))


def run_racing(options: BridgeOptions, command: Sequence[str], wire: Wire) -> int:
    """Run the agent's command behind a bridge and return its exit code. Raises BridgeError if it does not start."""

    async def bridged(client: GatewayClient) -> int:
        return await RacingBridge(client, options, wire).run(command)

    try:
        return run_bridge(options, bridged)
    except OSError as error:
        raise BridgeError(f"`{command[0]}` cannot be started: {(error.strerror or str(error)).lower()}") from error


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
