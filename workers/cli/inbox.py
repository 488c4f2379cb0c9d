"""`inbox`: a link that signs one browser in to the gateway of this machine."""

from __future__ import annotations

import os
import webbrowser
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.client.machine import default_actor_name
from ledger.client.tokens import ROLES
from ledger.core.errors import InputError
from ledger.stores.urls import default_home
from workers.cli.base import command, with_ledger
from workers.cli.output import CommandOutput, talk

if TYPE_CHECKING:
    from ledger import Ledger

_WEB: Final = ("http://", "https://")


@command(
    examples=(
        "permission-ledger inbox",
        "permission-ledger inbox --open",
        "permission-ledger inbox --role approver --as ann",
    )
)
@click.option("--open", "opens", is_flag=True, help="Open it in this machine's browser.")
@click.option("--role", type=click.Choice(ROLES[1:]), default="admin", show_default=True, help="The browser's role.")
@click.option("--as", "name", metavar="NAME", help="The person at the browser (default: user@host).")
@click.option(
    "--gateway",
    metavar="URL",
    help="The gateway's address for the browser (default: PERMISSION_LEDGER_GATEWAY, else this machine's).",
)
@with_ledger
async def inbox(
    ledger: Ledger, output: CommandOutput, *, opens: bool, role: Any, name: str | None, gateway: str | None
) -> None:
    """Print a link that signs one browser in to the inbox, once, within 15 minutes."""
    from workers.gateway.signing_in import sign_in_link  # noqa: PLC0415 - an extra
    from workers.transport.place import require_private_way  # noqa: PLC0415 - only this command needs it

    if gateway is not None and not gateway.startswith(_WEB):
        raise InputError(
            f"the --gateway `{gateway}` is not an address for a browser; write it like `http://127.0.0.1:8420`"
        )
    named = os.environ.get("PERMISSION_LEDGER_GATEWAY", "")
    found = gateway or (named if named.startswith(_WEB) else None)
    public_url = found or await _of_this_machine()
    if opens:
        require_private_way(public_url)
    link = await sign_in_link(ledger.tokens, public_url.rstrip("/"), name or default_actor_name(), role)
    if output.as_json:
        output.row({"link": link})
    else:
        output.line(link)
    if opens and not webbrowser.open(link):
        talk("no browser could be opened here; open the link yourself")


async def _of_this_machine() -> str:
    """Return the address of the inbox that this machine's gateway serves. Raises InputError when none runs."""
    from workers.gateway.address_file import FILE_NAME, read_address  # noqa: PLC0415 - an extra
    from workers.gateway.announcement import is_running  # noqa: PLC0415 - the same

    way_out = "start one (`permission-ledger up`), or name its address with --gateway"
    folder = default_home()
    found = read_address(folder)
    public_url = found.get("inbox")
    if not isinstance(public_url, str):
        raise InputError(f"no gateway was found; {way_out}")
    if not await is_running(found):
        raise InputError(
            f"the gateway that `{folder / FILE_NAME}` names (process {found.get('process')}) does not answer; {way_out}"
        )
    return public_url
