"""`bridge codelia`: between Codelia's user interface and its runtime."""

from __future__ import annotations

import click

from workers.bridges.options import BridgeOptions
from workers.cli.bridge.base import bridge_command
from workers.transport.errors import BridgeError


@bridge_command(
    "codelia",
    dialect="codelia",
    examples=(
        "permission-ledger bridge codelia -- bun packages/runtime/src/index.ts",
        "permission-ledger bridge codelia --rules .codelia/config.json -- bun packages/runtime/src/index.ts",
        "permission-ledger bridge codelia --headless -- bun packages/runtime/src/index.ts",
    ),
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.option("--headless", is_flag=True, help="The host asks nobody (`codelia -p`): the ledger alone answers.")
@click.option("--share-grants", is_flag=True, help="Tell Codelia what was granted; it then asks no more, nor do we.")
def codelia(*, options: BridgeOptions, command: tuple[str, ...], headless: bool, share_grants: bool) -> int:
    """Answer what Codelia's runtime asks about its tools, by the ledger's rules and people.

    COMMAND starts the runtime. Codelia takes this line for its runtime's by CODELIA_RUNTIME_CMD=permission-ledger and
    CODELIA_RUNTIME_ARGS="bridge codelia -- COMMAND…".
    """
    from workers.bridges.codelia import CodeliaBridge  # noqa: PLC0415 - asyncio is slow to import
    from workers.bridges.startup import run_bridge  # noqa: PLC0415
    from workers.transport.gateway_client import GatewayClient  # noqa: PLC0415

    async def bridged(client: GatewayClient) -> int:
        return await CodeliaBridge(client, options, shares_grants=share_grants, headless=headless).run(command)

    try:
        return run_bridge(options, bridged)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BridgeError(f"`{command[0]}` cannot be started: {why}") from error
