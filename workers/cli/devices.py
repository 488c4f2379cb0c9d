"""`device`: the list of devices with push messages, and the removal of a lost one."""

from __future__ import annotations

from typing import Any

import click

from ledger import Ledger
from ledger.access.notifications import Device
from ledger.core.times import format_time
from workers.cli.base import command, local_actor, with_ledger
from workers.cli.output import CommandOutput

COLUMNS = ("device", "person", "name", "enabled", "last used", "state")


@click.group(short_help="Devices with push messages: list, remove.")
def device() -> None:
    """Devices on which people get push messages. They are enabled at the inbox, on its page *Notifications*."""


@command("list", examples=("permission-ledger device list", "permission-ledger device list --person ann --json"))
@click.option("--person", metavar="NAME", help="Only those of this person.")
@with_ledger
async def list_(ledger: Ledger, output: CommandOutput, *, person: str | None) -> None:
    """List the devices that were not removed, oldest first. One whose sign-in has ended gets no messages."""
    found = [one for one in await ledger.notifications.all() if person in (None, one.person)]
    rows = [_row(one, ledger) for one in found]
    output.listing(rows, dict, COLUMNS, _cells, none="no device gets push messages")


@command("remove", examples=("permission-ledger device remove dev_3q27w --reason 'lost phone'",))
@click.argument("device_id", metavar="DEVICE")
@click.option("--reason", metavar="TEXT", help="The reason, kept with the event.")
@click.option("--as", "name_of_actor", metavar="NAME", help="The person who removes it (default: user@host).")
@with_ledger
async def remove(
    ledger: Ledger, output: CommandOutput, *, device_id: str, reason: str | None, name_of_actor: str | None
) -> None:
    """End push messages on a device by its id. Its sign-in goes on: `token revoke` ends that and the messages together."""
    await ledger.tokens.all()
    gone = await ledger.notifications.remove(device_id, reason=reason, actor=local_actor(name_of_actor))
    if output.as_json:
        output.row({**_row(gone, ledger), "in_force": False})
    else:
        output.line(f"removed the device `{gone.name}` of {gone.person}")


for one in (list_, remove):
    device.add_command(one)


def _row(one: Device, ledger: Ledger) -> dict[str, Any]:
    return {
        "device_id": one.device_id,
        "person": one.person,
        "name": one.name,
        "at": format_time(one.at_ms),
        "used_at": None if one.used_ms is None else format_time(one.used_ms),
        "in_force": ledger.notifications.sign_in_of(one) is not None,
    }


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["device_id"],
        row["person"],
        row["name"],
        row["at"],
        row["used_at"] or "never",
        "in force" if row["in_force"] else "signed out",
    )
