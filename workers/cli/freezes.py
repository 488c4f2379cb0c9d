"""`freeze` and `unfreeze`: stop everything, or one project, and let it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ledger.core.freezes import Freeze
from ledger.core.times import format_time
from workers.cli.base import Run, checked, command, local_actor, require_reason, with_ledger
from workers.cli.output import CommandOutput

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("frozen", "by", "at", "reason")


def _project(function: Run) -> Run:
    return click.option("--project", metavar="PROJECT", help="One project alone (default: the whole ledger).")(function)


@command(
    examples=(
        "permission-ledger freeze --reason 'an agent misbehaves'",
        "permission-ledger freeze --project shop --reason 'the release is broken' --json",
        "permission-ledger freeze --list",
    )
)
@_project
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log and shown to everybody.")
@click.option("--list", "lists", is_flag=True, help="Only list the freezes in force.")
@checked(require_reason)
@with_ledger
async def freeze(
    ledger: Ledger, output: CommandOutput, *, project: str | None, reason: str | None, lists: bool
) -> None:
    """Stop everything: nothing is allowed and nothing begins to run until it is unfrozen.

    After this command has succeeded no process allows or claims a call within its reach. New asks wait (or are denied,
    where their session says so), answers that allow are refused with exit code 14, and rejecting works. What runs
    already goes on. With exit code 8 it is not certain yet that all of the ledger is frozen: repeat the command.
    """
    if lists:
        rows = await ledger.freezes.in_force()
        output.listing(rows, Freeze.as_json, COLUMNS, _cells, none="nothing is frozen")
        return
    made = await ledger.freezes.freeze(project, reason=reason, actor=local_actor())
    if output.as_json:
        output.row({**made.as_json(), "frozen": True})
    else:
        output.line(made.sentence)


@command(
    examples=(
        "permission-ledger unfreeze",
        "permission-ledger unfreeze --project shop --reason 'the release is repaired' --json",
    )
)
@_project
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@with_ledger
async def unfreeze(ledger: Ledger, output: CommandOutput, *, project: str | None, reason: str | None) -> None:
    """End a freeze: what only the freeze held back is judged again, and goes on where the rules still allow it.

    Requests that wait for a person go on waiting. Without --project the freeze of the whole ledger ends; freezes of
    projects stay. Ending one that is not in force succeeds and changes nothing.
    """
    ended = await ledger.freezes.unfreeze(project, reason=reason, actor=local_actor())
    left = await ledger.freezes.in_force()
    if output.as_json:
        output.row(_unfrozen_json(project, ended, left))
        return
    place = "the ledger" if project is None else f"project `{project}`"
    output.line(f"{place} is not frozen any more" if ended else f"{place} was not frozen")
    for one in left:
        output.line(f"  still: {one.sentence}")


def _unfrozen_json(project: str | None, ended: Freeze | None, left: tuple[Freeze, ...]) -> dict[str, Any]:
    still = [one.as_json() for one in left]
    return {"project": project, "frozen": False, "ended": None if ended is None else ended.as_json(), "still": still}


def _cells(one: Freeze) -> tuple[str | None, ...]:
    return (
        "everything" if one.project is None else f"project {one.project}",
        one.by,
        format_time(one.at_ms),
        one.reason,
    )
