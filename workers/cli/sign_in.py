"""`token`, `passkey`, `device` and `inbox`: what signs agents and browsers in, and its removal when it is lost."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ledger import Ledger
from ledger.access.notifications import Device
from ledger.access.passkeys import passkey_json
from ledger.client.machine import default_actor_name
from ledger.client.tokens import ROLES, token_json
from ledger.core.errors import InputError
from ledger.core.times import format_time, parse_duration
from ledger.stores.urls import default_home
from workers.cli.base import Pages, command, limited, local_actor, print_pages, utc_option, with_ledger
from workers.cli.output import CommandOutput, talk
from workers.cli.tables import At, IdCell, Wide, at

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("token", "name", "role", Wide("reach"), "expires", "state")

EVERYTHING: Final = (
    "WARNING: agent {name} reads, cancels and closes the sessions of ALL agents in {where}, and notes in them what ran; "
    "without --everything it reaches its own sessions"
)


@click.group(short_help="Tokens for the gateway: create, list, revoke; end answer links.")
def token() -> None:
    """Tokens for the gateway. Only the SHA-256 of a token is kept: its text is shown once, when it is made."""


@command(
    "permission-ledger token create ann --role approver --expires 30d",
    "permission-ledger token create ci-agent --role agent --project shop",
    "permission-ledger token create laptop --role agent --any-project --brings-rules",
    "permission-ledger token create ci-agent --role agent --project shop --folder /srv/shop --for ann",
    name="create",
)
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="agent asks, approver answers, auditor reads.")
@click.option("--project", "projects", multiple=True, metavar="PROJECT", help="Only in this project; repeatable.")
@click.option("--session", "sessions", multiple=True, metavar="SESSION", help="Only in this session; repeatable.")
@click.option("--expires", metavar="DURATION", help="Its lifetime, e.g. 30d (default: never expires).")
@click.option("--brings-rules", is_flag=True, help="The agent's own rules count (else the gateway's judge).")
@click.option(
    "--for", "owner", metavar="NAME", help="The person whom the agent works for (default: the token's maker)."
)
@click.option(
    "--folder", "folders", multiple=True, metavar="PATH", help="A folder that its sessions may work in; repeatable."
)
@click.option("--any-project", is_flag=True, help="An agent in any project (else: in the first that it works in).")
@click.option("--everything", is_flag=True, help="An agent that reads, cancels and closes the sessions of OTHERS too.")
@click.option("--as", "name_of_actor", metavar="NAME", help="Act as NAME (default: user@host).")
@with_ledger
async def create(
    ledger: Ledger,
    output: CommandOutput,
    *,
    name: str,
    role: Any,
    expires: str | None,
    name_of_actor: str | None,
    **reach: Any,
) -> None:
    """Make a token and print its text: keep it, it cannot be shown again.

    An agent reaches the sessions that it opened itself, in one project: the one that `--project` names, else the first in
    which it opens a session.
    """
    made = await ledger.tokens.create(
        name,
        role,
        expires_in_ms=None if expires is None else parse_duration(expires, "time to live"),
        actor=local_actor(name_of_actor),
        **reach,
    )
    if reach["everything"]:
        where = " or ".join(reach["projects"] or reach["sessions"]) or "EVERY project"
        talk(EVERYTHING.format(name=name, where=where))
    if output.as_json:
        output.row({**token_json(made.token, ledger.store.clock.now_ms()), "token": made.text})
        return
    output.line(made.text)
    talk(f"token {made.token.token_id} for {name}, role {role}; it cannot be shown again")


@command("permission-ledger token list", "permission-ledger token list --all --json", name="list")
@click.option("--all", "everything", is_flag=True, help="Also those that have ended, and browsers' own.")
@limited
@with_ledger
async def list_(
    ledger: Ledger, output: CommandOutput, *, everything: bool, limit: int | None, after: str | None
) -> None:
    """List the tokens in force, oldest first."""
    now_ms = ledger.store.clock.now_ms()
    rows = [token_json(one, now_ms) for one in await ledger.tokens.page(after)]

    async def shown() -> Pages:
        for row in rows:
            if everything or (row["in_force"] and row["use"] == "bearer"):
                yield row["token_id"], row

    count = await print_pages(output, shown(), limit, COLUMNS, _cells)
    if not (count or after or output.as_json):
        talk("there is no token")


@command(
    "permission-ledger token revoke tok_1a2b",
    "permission-ledger token revoke tok_1a2b --reason 'lost phone'",
    name="revoke",
)
@click.argument("token_id", metavar="TOKEN")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@click.option("--as", "name_of_actor", metavar="NAME", help="Act as NAME (default: user@host).")
@with_ledger
async def revoke(
    ledger: Ledger, output: CommandOutput, *, token_id: str, reason: str | None, name_of_actor: str | None
) -> None:
    """End a token by its id (`tok_…`), and the browsers that signed in with it."""
    ended = await ledger.tokens.revoke(token_id, reason=reason, actor=local_actor(name_of_actor))
    row = token_json(ended, ledger.store.clock.now_ms())
    output.result(row, f"revoked {ended.token_id} ({ended.name}, {ended.role})")


@command(
    "permission-ledger token rotate-links",
    "permission-ledger token rotate-links --reason 'the topic was public'",
    name="rotate-links",
)
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@click.option("--as", "name_of_actor", metavar="NAME", help="Act as NAME (default: user@host).")
@with_ledger
async def rotate_links(ledger: Ledger, output: CommandOutput, *, reason: str | None, name_of_actor: str | None) -> None:
    """End all answer links that are out: a new key signs them, at every gateway and notifier at once."""
    await ledger.tokens.rotate_links(reason=reason, actor=local_actor(name_of_actor))
    output.result({"rotated": True}, "all answer links that were out have ended; the next messages carry new ones")


for one in (create, list_, revoke, rotate_links):
    token.add_command(one)


def _is_narrow(row: Mapping[str, Any]) -> bool:
    return row["role"] == "agent" and not row["everything"]


def _projects(row: Mapping[str, Any]) -> str:
    if not _is_narrow(row) or row["any_project"]:
        return "all projects"
    return row["claimed"] or "the first project that it works in"


def _sessions(row: Mapping[str, Any]) -> str:
    return (
        f"sessions {', '.join(row['sessions'])}"
        if row["sessions"]
        else f"{'its own' if _is_narrow(row) else 'all'} sessions"
    )


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    state = "in force" if row["in_force"] else "revoked" if row["revoked_at"] else "ended"
    return (
        IdCell(row["token_id"]),
        row["name"],
        row["role"] + (", brings rules" if row["brings_rules"] else "") + (", EVERYTHING" if row["everything"] else ""),
        f"{_sessions(row)} in {', '.join(row['projects']) or _projects(row)}",
        at(row["expires_at"], "never"),
        state if row["use"] == "bearer" else f"{state}, {row['use']}",
    )


PASSKEY_COLUMNS = ("passkey", "person", Wide("name"), "site", "last used", "state")


@click.group(short_help="Passkeys that sign answers: list, remove.")
def passkey() -> None:
    """Passkeys of people. They are registered at the inbox; a rule demands them (`answer_by: passkey`)."""


@command("permission-ledger passkey list", "permission-ledger passkey list --all --json", name="list")
@click.option("--all", "everything", is_flag=True, help="Also those that were removed.")
@utc_option
@with_ledger
async def list_passkeys(ledger: Ledger, output: CommandOutput, *, everything: bool) -> None:
    """List the passkeys, oldest first. Kept elsewhere, the list is what `verify --passkeys` trusts."""
    rows = [passkey_json(one) for one in await ledger.passkeys.all() if everything or one.removed_ms is None]
    output.listing(rows, dict, PASSKEY_COLUMNS, _passkey_cells, none="there is no passkey")


@command("permission-ledger passkey remove 3q2-7w --reason 'lost phone'", name="remove")
@click.argument("credential_id", metavar="PASSKEY")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@click.option("--as", "name_of_actor", metavar="NAME", help="Act as NAME (default: user@host).")
@with_ledger
async def remove_passkey(
    ledger: Ledger, output: CommandOutput, *, credential_id: str, reason: str | None, name_of_actor: str | None
) -> None:
    """Remove a passkey by its id, without the consent of its person: for one that was lost."""
    gone = await ledger.passkeys.remove(
        credential_id, administrator=True, reason=reason, actor=local_actor(name_of_actor)
    )
    output.result(passkey_json(gone), f"removed the passkey `{gone.name}` of {gone.person}")


for one in (list_passkeys, remove_passkey):
    passkey.add_command(one)


def _passkey_cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["credential_id"],
        row["person"],
        row["name"],
        row["rp_id"],
        at(row["used_at"], "never"),
        ("in force" if row["removed_at"] is None else "removed")
        + ("" if row["vouched"] else ", nobody else consented"),
    )


DEVICE_COLUMNS = ("device", "person", Wide("name"), "enabled", "last used", "state")


@click.group(short_help="Devices with push messages: list, remove.")
def device() -> None:
    """Devices on which people get push messages. They are enabled at the inbox, on its page *Notifications*."""


@command("permission-ledger device list", "permission-ledger device list --person ann --json", name="list")
@click.option("--person", metavar="NAME", help="Only those of this person.")
@utc_option
@with_ledger
async def list_devices(ledger: Ledger, output: CommandOutput, *, person: str | None) -> None:
    """List the devices that were not removed, oldest first. One whose sign-in has ended gets no messages."""
    found = [one for one in await ledger.notifications.all() if person in (None, one.person)]
    rows = [_device_row(one, ledger) for one in found]
    output.listing(rows, dict, DEVICE_COLUMNS, _device_cells, none="no device gets push messages")


@command("permission-ledger device remove dev_3q27w --reason 'lost phone'", name="remove")
@click.argument("device_id", metavar="DEVICE")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@click.option("--as", "name_of_actor", metavar="NAME", help="Act as NAME (default: user@host).")
@with_ledger
async def remove_device(
    ledger: Ledger, output: CommandOutput, *, device_id: str, reason: str | None, name_of_actor: str | None
) -> None:
    """End push messages on a device by its id. Its sign-in goes on: `token revoke` ends that and the messages together."""
    await ledger.tokens.all()
    gone = await ledger.notifications.remove(device_id, reason=reason, actor=local_actor(name_of_actor))
    row = {**_device_row(gone, ledger), "in_force": False}
    output.result(row, f"removed the device `{gone.name}` of {gone.person}")


for one in (list_devices, remove_device):
    device.add_command(one)


def _device_row(one: Device, ledger: Ledger) -> dict[str, Any]:
    return {
        "device_id": one.device_id,
        "person": one.person,
        "name": one.name,
        "at": format_time(one.at_ms),
        "used_at": None if one.used_ms is None else format_time(one.used_ms),
        "in_force": ledger.notifications.sign_in_of(one) is not None,
    }


def _device_cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        IdCell(row["device_id"]),
        row["person"],
        row["name"],
        At(row["at"]),
        at(row["used_at"], "never"),
        "in force" if row["in_force"] else "signed out",
    )


_WEB: Final = ("http://", "https://")


@command(
    "permission-ledger inbox",
    "permission-ledger inbox --open",
    "permission-ledger inbox --role approver --as ann",
)
@click.option("--open", "opens", is_flag=True, help="Open it in this machine's browser.")
@click.option("--role", type=click.Choice(ROLES[1:]), default="admin", show_default=True, help="The browser's role.")
@click.option("--as", "name", metavar="NAME", help="Act as NAME (default: user@host).")
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
    output.result({"link": link}, link)
    if opens and not webbrowser.open(link):
        talk("no browser could be opened here; open the link yourself")


async def _of_this_machine() -> str:
    """Return the address of the inbox that this machine's gateway serves. Raises InputError when none runs."""
    from workers.gateway.announcement import FILE_NAME, is_running, read_address  # noqa: PLC0415 - an extra

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
