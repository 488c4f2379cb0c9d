"""`bridge opencode`: the ledger judges every permission request of an OpenCode server."""

from __future__ import annotations

import click

from workers.bridges.options import BridgeOptions
from workers.cli.bridge.base import bridge_command


@bridge_command(
    "opencode",
    examples=(
        "permission-ledger bridge opencode --url http://127.0.0.1:4096",
        "permission-ledger bridge opencode --url http://127.0.0.1:4096 --directory . --rules opencode.json",
        "permission-ledger bridge opencode -- opencode serve --port 4096",
        "permission-ledger bridge opencode --listen 127.0.0.1:4097 -- opencode serve --port 4096",
    ),
    dialect="opencode",
)
@click.option("--url", metavar="URL", help="The OpenCode server (default: http://127.0.0.1:4096, or as PROGRAM says).")
@click.option("--directory", metavar="DIR", help="Follow this project directory alone (default: all of the server's).")
@click.option("--listen", metavar="HOST:PORT", help="Be a proxy in front of the server: every byte as it came.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def opencode(
    *, options: BridgeOptions, url: str | None, directory: str | None, listen: str | None, program: tuple[str, ...]
) -> int:
    """Answer what an OpenCode server asks, by the ledger's rules and people. PROGRAM is started and ended with it.

    Answers given in OpenCode itself count as well: whoever is first. A server with a password wants
    OPENCODE_SERVER_PASSWORD set here too.
    """
    from workers.bridges.opencode.command import OpencodeOptions, run  # noqa: PLC0415 - asyncio is slow to import

    return run(OpencodeOptions(url, directory, listen, program), options)
