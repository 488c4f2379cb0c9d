"""`hold` and `unhold`: forbid redaction of a session or a project, and allow it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ledger.access.freeze import HoldReach, LegalHold
from ledger.core.times import format_time
from workers.cli.base import Run, checked, command, local_actor, require_reason, with_ledger
from workers.cli.output import CommandOutput

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("held", "by", "at", "reason")


def _check_reach(*, project: str | None, session: str | None, lists: bool = False, **_others: object) -> None:
    if lists:
        if project or session:
            raise click.UsageError("--list lists all holds: leave --project and --session out")
    elif bool(project) == bool(session):
        raise click.UsageError("name what it concerns with --project PROJECT or --session SESSION")


def _reach(function: Run) -> Run:
    project = click.option("--project", metavar="PROJECT", help="A project, with all of its sessions.")
    session = click.option("--session", metavar="SESSION", help="One session.")
    return project(session(function))


@command(
    examples=(
        "permission-ledger hold --project shop --reason 'case 2026-17'",
        "permission-ledger hold --session ses_1 --reason 'case 2026-17' --json",
        "permission-ledger hold --list",
    )
)
@_reach
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log and shown to whoever wants to redact.")
@click.option("--list", "lists", is_flag=True, help="Only list the holds in force.")
@checked(_check_reach)
@checked(require_reason)
@with_ledger
async def hold(
    ledger: Ledger,
    output: CommandOutput,
    *,
    project: str | None,
    session: str | None,
    reason: str | None,
    lists: bool,
) -> None:
    """Place a legal hold: nothing of a project with its sessions, or of one session, is redacted until it is lifted.

    A redaction there is refused with exit code 12, and says who placed the hold, when and why. Asks, answers and claims
    go on. A project or session has one hold: placing another one succeeds, keeps the first and prints it.
    """
    if lists:
        rows = await ledger.holds.in_force()
        output.listing(rows, LegalHold.as_json, COLUMNS, _cells, none="nothing is under a hold")
        return
    placed = await ledger.holds.place(project=project, session=session, reason=reason or "", actor=local_actor())
    if output.as_json:
        output.row({**placed.as_json(), "held": True})
    else:
        output.line(placed.sentence)


@command(
    examples=(
        "permission-ledger unhold --project shop --reason 'case 2026-17 is closed'",
        "permission-ledger unhold --session ses_1 --json",
    )
)
@_reach
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@checked(_check_reach)
@with_ledger
async def unhold(
    ledger: Ledger, output: CommandOutput, *, project: str | None, session: str | None, reason: str | None
) -> None:
    """Lift a legal hold: what it covered may be redacted again, where no other hold covers it.

    The hold of a project does not end with that of one of its sessions, nor the reverse. Lifting one that is not in
    force succeeds and changes nothing.
    """
    ended = await ledger.holds.lift(project=project, session=session, reason=reason, actor=local_actor())
    if output.as_json:
        lifted = None if ended is None else ended.as_json()
        output.row({"project": project, "session": session, "held": False, "ended": lifted})
        return
    place = HoldReach(project=project, session=session).place
    output.line(f"{place} is not under a hold any more" if ended else f"{place} was not under a hold")


def _cells(one: LegalHold) -> tuple[str | None, ...]:
    kind, name = ("project", one.reach.project) if one.reach.session is None else ("session", one.reach.session)
    return f"{kind} {name}", one.by, format_time(one.at_ms), one.reason
