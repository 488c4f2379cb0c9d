"""`server-user`: the password and the rights of the ledger's user on a server."""

from __future__ import annotations

from pathlib import Path

import click

from workers.cli.base import LedgerCommand, json_option
from workers.cli.output import CommandOutput, talk

EXAMPLE = "permission-ledger server-user --server redis://redis:6379/0 --url-file secret/url --acl-file acl/users.acl"
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("server-user", cls=LedgerCommand, examples=(EXAMPLE,))
@click.option("--server", metavar="URL", required=True, help="The server's URL for the ledger's processes.")
@click.option("--url-file", type=FILE, required=True, help="For PERMISSION_LEDGER_URL_FILE; kept if it exists.")
@click.option("--acl-file", type=FILE, required=True, help="For the server's `aclfile`; written anew each time.")
def server_user(*, server: str, url_file: Path, acl_file: Path, as_json: bool) -> None:
    """Make a password for the ledger's user on a server, with the least rights that the ledger needs.

    The URL with the password goes into one file, its SHA-256 and the rights into the other. Nobody can log in as
    the server's default user, which only reads the server's file.
    """
    from workers.runtime.server_user import write_server_user  # noqa: PLC0415 - slow to import

    write_server_user(server, url_file, acl_file)
    if as_json:
        CommandOutput(as_json=True).row({"url_file": str(url_file), "acl_file": str(acl_file)})
    talk(f"{url_file}: the ledger's URL; {acl_file}: its user on the server")


server_user.params.append(json_option())
