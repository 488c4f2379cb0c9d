"""`token`: the tokens for the gateway, and their roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.client.tokens import ROLES, token_json
from ledger.core.times import parse_duration
from workers.cli.base import command, local_actor, with_ledger
from workers.cli.output import CommandOutput, talk
from workers.cli.paging import each, limited, print_pages

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("token", "name", "role", "projects", "sessions", "made", "expires", "state")

EVERYTHING: Final = (
    "WARNING: agent {name} reads, cancels and closes the sessions of ALL agents in {where}, and notes in them what ran; "
    "without --everything it reaches its own sessions"
)


@click.group(short_help="Tokens for the gateway: create, list, revoke; end answer links.")
def token() -> None:
    """Tokens for the gateway. Only the SHA-256 of a token is kept: its text is shown once, when it is made."""


@command(
    "create",
    examples=(
        "permission-ledger token create ann --role approver --expires 30d",
        "permission-ledger token create ci-agent --role agent --project shop",
        "permission-ledger token create laptop --role agent --any-project --brings-rules",
        "permission-ledger token create ci-agent --role agent --project shop --folder /srv/shop --for ann",
    ),
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
@click.option("--as", "name_of_actor", metavar="NAME", help="The person who makes it (default: user@host).")
@with_ledger
async def create(
    ledger: Ledger,
    output: CommandOutput,
    *,
    name: str,
    role: Any,
    projects: Sequence[str],
    sessions: Sequence[str],
    expires: str | None,
    brings_rules: bool,
    owner: str | None,
    folders: Sequence[str],
    any_project: bool,
    everything: bool,
    name_of_actor: str | None,
) -> None:
    """Make a token and print its text: keep it, it cannot be shown again.

    An agent reaches the sessions that it opened itself, in one project: the one that `--project` names, else the first in
    which it opens a session.
    """
    made = await ledger.tokens.create(
        name,
        role,
        projects=projects,
        sessions=sessions,
        expires_in_ms=None if expires is None else parse_duration(expires, "time to live"),
        brings_rules=brings_rules,
        owner=owner,
        folders=folders,
        any_project=any_project,
        everything=everything,
        actor=local_actor(name_of_actor),
    )
    if everything:
        talk(EVERYTHING.format(name=name, where=" or ".join(projects or sessions) or "EVERY project"))
    if output.as_json:
        output.row({**token_json(made.token, ledger.store.clock.now_ms()), "token": made.text})
        return
    output.line(made.text)
    talk(f"token {made.token.token_id} for {name}, role {role}; it cannot be shown again")


@command("list", examples=("permission-ledger token list", "permission-ledger token list --all --json"))
@click.option("--all", "everything", is_flag=True, help="Also those that have ended, and browsers' own.")
@limited
@with_ledger
async def list_(
    ledger: Ledger, output: CommandOutput, *, everything: bool, limit: int | None, after: str | None
) -> None:
    """List the tokens in force, oldest first."""
    now_ms = ledger.store.clock.now_ms()
    rows = [token_json(one, now_ms) for one in await ledger.tokens.page(after)]
    shown = [(row["token_id"], row) for row in rows if everything or (row["in_force"] and row["use"] == "bearer")]
    count = await print_pages(output, each(shown), limit, COLUMNS, _cells)
    if not (count or after or output.as_json):
        talk("there is no token")


@command(
    "revoke",
    examples=(
        "permission-ledger token revoke tok_1a2b",
        "permission-ledger token revoke tok_1a2b --reason 'lost phone'",
    ),
)
@click.argument("token_id", metavar="TOKEN")
@click.option("--reason", metavar="TEXT", help="The reason, kept with the event.")
@click.option("--as", "name_of_actor", metavar="NAME", help="The person who revokes it (default: user@host).")
@with_ledger
async def revoke(
    ledger: Ledger, output: CommandOutput, *, token_id: str, reason: str | None, name_of_actor: str | None
) -> None:
    """End a token by its id (`tok_…`), and the browsers that signed in with it."""
    ended = await ledger.tokens.revoke(token_id, reason=reason, actor=local_actor(name_of_actor))
    if output.as_json:
        output.row(token_json(ended, ledger.store.clock.now_ms()))
    else:
        output.line(f"revoked {ended.token_id} ({ended.name}, {ended.role})")


@command(
    "rotate-links",
    examples=(
        "permission-ledger token rotate-links",
        "permission-ledger token rotate-links --reason 'the topic was public'",
    ),
)
@click.option("--reason", metavar="TEXT", help="The reason, kept with the event.")
@click.option("--as", "name_of_actor", metavar="NAME", help="The person who ends them (default: user@host).")
@with_ledger
async def rotate_links(ledger: Ledger, output: CommandOutput, *, reason: str | None, name_of_actor: str | None) -> None:
    """End all answer links that are out: a new key signs them, at every gateway and notifier at once."""
    await ledger.tokens.rotate_links(reason=reason, actor=local_actor(name_of_actor))
    if output.as_json:
        output.row({"rotated": True})
    else:
        output.line("all answer links that were out have ended; the next messages carry new ones")


for one in (create, list_, revoke, rotate_links):
    token.add_command(one)


def _is_narrow(row: Mapping[str, Any]) -> bool:
    return row["role"] == "agent" and not row["everything"]


def _projects(row: Mapping[str, Any]) -> str:
    if not _is_narrow(row) or row["any_project"]:
        return "all"
    return row["claimed"] or "the first it opens"


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    state = "in force" if row["in_force"] else "revoked" if row["revoked_at"] else "ended"
    return (
        row["token_id"],
        row["name"],
        row["role"] + (", brings rules" if row["brings_rules"] else "") + (", EVERYTHING" if row["everything"] else ""),
        ", ".join(row["projects"]) or _projects(row),
        ", ".join(row["sessions"]) or ("its own" if _is_narrow(row) else "all"),
        row["at"],
        row["expires_at"] or "never",
        state if row["use"] == "bearer" else f"{state}, {row['use']}",
    )
