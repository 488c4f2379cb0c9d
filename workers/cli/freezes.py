"""`freeze` and `hold`: stop everything, or one project; forbid redaction of one; and the reverse of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ledger.access.freeze import HoldReach, LegalHold
from ledger.core.freezes import Freeze
from ledger.core.times import format_time
from workers.cli.base import checked, command, local_actor, require_reason, utc_option, with_ledger
from workers.cli.options import adding
from workers.cli.output import CommandOutput
from workers.cli.tables import At, Wide

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("frozen", "by", "at", Wide("reason"))


_project: Final = click.option("--project", metavar="PROJECT", help="One project alone (default: the whole ledger).")


@command(
    "permission-ledger freeze --reason 'an agent misbehaves'",
    "permission-ledger freeze --project shop --reason 'the release is broken' --json",
    "permission-ledger freeze --list",
)
@_project
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@click.option("--list", "lists", is_flag=True, help="Only list the freezes in force.")
@utc_option
@checked(require_reason)
@with_ledger
async def freeze(
    ledger: Ledger, output: CommandOutput, *, project: str | None, reason: str | None, lists: bool
) -> None:
    """Stop everything: nothing is allowed and nothing begins to run until it is unfrozen.

    Once it has succeeded, no process allows or claims a call within its reach. New asks wait (or are denied, where their
    session says so), answers that allow are refused (14), and rejecting works. What runs already goes on. Exit code 8: it
    is not certain that all of the ledger is frozen; repeat the command.
    """
    if lists:
        rows = await ledger.freezes.in_force()
        output.listing(rows, Freeze.as_json, COLUMNS, _cells, none="nothing is frozen")
        return
    made = await ledger.freezes.freeze(project, reason=reason, actor=local_actor())
    output.result({**made.as_json(), "frozen": True}, made.sentence)


@command(
    "permission-ledger unfreeze",
    "permission-ledger unfreeze --project shop --reason 'the release is repaired' --json",
)
@_project
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@with_ledger
async def unfreeze(ledger: Ledger, output: CommandOutput, *, project: str | None, reason: str | None) -> None:
    """End a freeze: what only the freeze held back is judged again, and goes on where the rules still allow it.

    Requests that wait for a person go on waiting. Without --project the freeze of the whole ledger ends; freezes of
    projects stay.
    """
    ended = await ledger.freezes.unfreeze(project, reason=reason, actor=local_actor())
    left = await ledger.freezes.in_force()
    place = "the ledger" if project is None else f"project `{project}`"
    row = {"project": project, "frozen": False, "ended": None if ended is None else ended.as_json()}
    output.result(
        {**row, "still": [one.as_json() for one in left]},
        f"{place} is not frozen any more" if ended else f"{place} was not frozen",
        *(f"  still: {one.sentence}" for one in left),
    )


def _cells(one: Freeze) -> tuple[str | None, ...]:
    return (
        "everything" if one.project is None else f"project {one.project}",
        one.by,
        At(format_time(one.at_ms)),
        one.reason,
    )


HOLD_COLUMNS = ("held", "by", "at", Wide("reason"))


def _check_reach(*, project: str | None, session: str | None, lists: bool = False, **_others: object) -> None:
    if lists:
        if project or session:
            raise click.UsageError("--list lists all holds: leave --project and --session out")
    elif bool(project) == bool(session):
        raise click.UsageError("name what it concerns with --project PROJECT or --session SESSION")


_reach: Final = adding(
    click.option("--project", metavar="PROJECT", help="A project, with all of its sessions."),
    click.option("--session", metavar="SESSION", help="One session."),
)


@command(
    "permission-ledger hold --project shop --reason 'case 2026-17'",
    "permission-ledger hold --session ses_1 --reason 'case 2026-17' --json",
    "permission-ledger hold --list",
)
@_reach
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@click.option("--list", "lists", is_flag=True, help="Only list the holds in force.")
@utc_option
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

    A redaction there is refused (12), and says who placed the hold, when and why. A project or session has one hold:
    placing another one succeeds, keeps the first and prints it.
    """
    if lists:
        rows = await ledger.holds.in_force()
        output.listing(rows, LegalHold.as_json, HOLD_COLUMNS, _hold_cells, none="nothing is under a hold")
        return
    placed = await ledger.holds.place(project=project, session=session, reason=reason or "", actor=local_actor())
    output.result({**placed.as_json(), "held": True}, placed.sentence)


@command(
    "permission-ledger unhold --project shop --reason 'case 2026-17 is closed'",
    "permission-ledger unhold --session ses_1 --json",
)
@_reach
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@checked(_check_reach)
@with_ledger
async def unhold(
    ledger: Ledger, output: CommandOutput, *, project: str | None, session: str | None, reason: str | None
) -> None:
    """Lift a legal hold: what it covered may be redacted again, where no other hold covers it.

    The hold of a project does not end with that of one of its sessions, nor the reverse.
    """
    ended = await ledger.holds.lift(project=project, session=session, reason=reason, actor=local_actor())
    place = HoldReach(project=project, session=session).place
    lifted = None if ended is None else ended.as_json()
    output.result(
        {"project": project, "session": session, "held": False, "ended": lifted},
        f"{place} is not under a hold any more" if ended else f"{place} was not under a hold",
    )


def _hold_cells(one: LegalHold) -> tuple[str | None, ...]:
    kind, name = ("project", one.reach.project) if one.reach.session is None else ("session", one.reach.session)
    return f"{kind} {name}", one.by, At(format_time(one.at_ms)), one.reason
