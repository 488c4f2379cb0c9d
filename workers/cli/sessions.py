"""`sessions`: all sessions, read from their streams, so that no worker needs to run."""

from __future__ import annotations

import click

from ledger import Ledger
from ledger.log.surveys import survey
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from projections.sessions import summary_of
from workers.cli.base import command, with_ledger
from workers.cli.output import CommandOutput
from workers.cli.problems import tell_problems

COLUMNS = ("session", "project", "agent", "opened", "last event", "events", "pending", "closed")


@command(examples=("permission-ledger sessions", "permission-ledger sessions --project shop --json"))
@click.option("--project", metavar="PROJECT", help="Only the sessions of this project.")
@click.option("--open", "only_open", is_flag=True, help="Only those that are not closed.")
@with_ledger
async def sessions(ledger: Ledger, output: CommandOutput, *, project: str | None, only_open: bool) -> int:
    """List the sessions, the one with the newest event first.

    Sessions that are damaged are named on stderr (exit code 11), beside all others.
    """
    found = await survey(
        [StreamKey("session", name) async for name in ledger.sessions()],
        lambda key: ledger.streams.session(key.id).refresh(),
    )
    states = [
        state
        for state in found.rows
        if state.opened_ms is not None
        and (project is None or state.project == project)
        and not (only_open and state.closed_ms is not None)
    ]
    states.sort(key=lambda state: (-state.last_ms, state.session_id))
    none = "" if found.problems else "there is no session"
    output.listing(states, summary_of, COLUMNS, _cells, none=none)
    return tell_problems(output, found.problems)


def _cells(state: SessionState) -> tuple[object, ...]:
    row = summary_of(state)
    if state.imported_ms is not None:
        row["opened_at"] = f"{row['opened_at']} (imported)"
    names = ("session", "project", "agent", "opened_at", "at", "version", "pending", "closed_at")
    return tuple(row[name] for name in names)
