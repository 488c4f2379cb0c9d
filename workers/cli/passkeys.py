"""`passkey`: the list of registered passkeys, and the removal of a lost one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ledger.access.passkeys import passkey_json
from workers.cli.base import command, local_actor, with_ledger
from workers.cli.output import CommandOutput

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("passkey", "person", "name", "site", "registered", "consented by another", "last used", "state")


@click.group(short_help="Passkeys that sign answers: list, remove.")
def passkey() -> None:
    """Passkeys of people. They are registered at the inbox; a rule demands them (`answer_by: passkey`)."""


@command(
    "list",
    examples=("permission-ledger passkey list", "permission-ledger passkey list --all --json"),
)
@click.option("--all", "everything", is_flag=True, help="Also those that were removed.")
@with_ledger
async def list_(ledger: Ledger, output: CommandOutput, *, everything: bool) -> None:
    """List the passkeys, oldest first. Kept elsewhere, the list is what `verify --passkeys` trusts."""
    rows = [passkey_json(one) for one in await ledger.passkeys.all() if everything or one.removed_ms is None]
    output.listing(rows, dict, COLUMNS, _cells, none="there is no passkey")


@command("remove", examples=("permission-ledger passkey remove 3q2-7w --reason 'lost phone'",))
@click.argument("credential_id", metavar="PASSKEY")
@click.option("--reason", metavar="TEXT", help="The reason, kept with the event.")
@click.option("--as", "name_of_actor", metavar="NAME", help="The person who removes it (default: user@host).")
@with_ledger
async def remove(
    ledger: Ledger, output: CommandOutput, *, credential_id: str, reason: str | None, name_of_actor: str | None
) -> None:
    """Remove a passkey by its id, without the consent of its person: for one that was lost."""
    gone = await ledger.passkeys.remove(
        credential_id, administrator=True, reason=reason, actor=local_actor(name_of_actor)
    )
    if output.as_json:
        output.row(passkey_json(gone))
    else:
        output.line(f"removed the passkey `{gone.name}` of {gone.person}")


for one in (list_, remove):
    passkey.add_command(one)


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["credential_id"],
        row["person"],
        row["name"],
        row["rp_id"],
        row["at"],
        "yes" if row["vouched"] else "no",
        row["used_at"] or "never",
        "in force" if row["removed_at"] is None else "removed",
    )
