"""`show`: the state of a session, now or at a version or a time."""

from __future__ import annotations

from typing import Any, Final

import click

from ledger import Approved, Ledger, Result
from ledger.client.results import pending_of, result_of
from ledger.core.times import format_time, parse_moment
from ledger.log.history import Moment
from ledger.session.state import SessionState
from ledger.session.texts import answerer
from workers.cli import grants, pending
from workers.cli.base import command, with_ledger
from workers.cli.description import description_lines, what_would_run
from workers.cli.inputs import version_or_time
from workers.cli.output import CommandOutput
from workers.presentation.moments import approved_at, moment_json, project_grants, settled_ids


@command(
    examples=(
        "permission-ledger show ses_1",
        "permission-ledger show ses_1 --at 12 --json",
        "permission-ledger show ses_1 --at 2026-11-21T10:12:00Z",
    )
)
@click.argument("session")
@click.option(
    "--at",
    metavar="VERSION|TIME",
    help="As of this version, or after the last event at or before a time (RFC 3339; a date is the end of that day, UTC).",
)
@with_ledger
async def show(ledger: Ledger, output: CommandOutput, *, session: str, at: str | None) -> None:
    """Show what is pending, approved, connected and settled in a session: now, or as it was.

    Below the table of what is pending each request stands whole: its dangers, every member of its input, every pattern,
    who asks, and what the characters are that look like others.
    """
    moment = await ledger.state_at(session, version_or_time(at))
    as_of_ms = await _as_of_ms(ledger, moment, at)
    standing = approved_at(moment.state, await project_grants(ledger, moment.state), as_of_ms)
    if output.as_json:
        output.row(moment_json(moment, standing))
    else:
        print_moment(output, moment, standing, as_of_ms)


async def _as_of_ms(ledger: Ledger, moment: Moment[SessionState], at: str | None) -> int:
    """Return the server time (ms) at which grants count as in force or expired."""
    if at is None:
        return ledger.store.clock.now_ms()
    return moment.ms if isinstance(version_or_time(at), int) else parse_moment(at)


def print_moment(output: CommandOutput, moment: Moment[SessionState], standing: list[Approved], as_of_ms: int) -> None:
    """Print the state for a person; each pending request in full below the table."""
    state = moment.state
    output.line(f"session {state.session_id}, version {moment.version}, {format_time(moment.ms)}")
    closed = "" if state.closed_ms is None else f", closed {format_time(state.closed_ms)}"
    imported = "" if state.imported_ms is None else f", imported {format_time(state.imported_ms)}"
    output.line(f"project {state.project or '-'}, agent {state.agent or '-'}{imported}{closed}")
    waiting = pending_of(state)
    _section(output, "pending", pending.COLUMNS, [pending.pending_cells(one, as_of_ms) for one in waiting])
    for one in waiting:
        output.line()
        output.line(f"request {one.request.request_id}:")
        for line in description_lines(one.request):
            output.line(f"  {line}")
    _section(output, "approved", grants.COLUMNS, [grants.approved_cells(one.as_json()) for one in standing])
    clients = sorted(state.clients.values(), key=lambda client: client.version)
    rows = [
        (one.client_id, one.name, format_time(one.since_ms), "yes" * (one.client_id == state.lock)) for one in clients
    ]
    _section(output, "clients", ("client", "name", "since", "input lock"), rows)
    _section(
        output, "settled", SETTLED_COLUMNS, [_settled_cells(state, request_id) for request_id in settled_ids(state)]
    )


SETTLED_COLUMNS = ("request", "permission", "what was asked", "folder", "outcome", "reply", "by", "at", "run")


def _settled_cells(state: SessionState, request_id: str) -> tuple[object, ...]:
    result = result_of(state, request_id)
    request = result.request
    asked = what_would_run(request)
    by = f"{answerer(result.by.name, result.told)}{' (imported)' if result.settled and result.settled.imported else ''}"
    return (
        request_id,
        request.permission,
        asked,
        request.cwd,
        result.outcome,
        result.reply,
        by,
        result.at,
        _run(result),
    )


def _run(result: Result) -> str:
    """Return who claimed the call, and whether it has run."""
    held = None if result.settled is None else result.settled.claim
    return "" if held is None else f"{RUNS[held.status]} ({held.runner})"


RUNS: Final = {
    "open": "may have run: no end recorded yet",
    "unknown": "may have run: its end is not known",
    "finished": "has run",
    "released": "not run: the claim was released",
}


def _section(output: CommandOutput, title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    output.line()
    output.line(f"{title}: {len(rows) or 'none'}")
    if rows:
        output.table(columns, rows)
