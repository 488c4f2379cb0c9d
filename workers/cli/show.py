"""`show`: the state of a session, now or at a version or a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ledger.client.results import result_of
from ledger.core.errors import InputError
from ledger.core.times import format_time, parse_moment
from ledger.log.history import Moment
from ledger.session.decision import records_clients
from ledger.session.state import SessionState
from ledger.session.would_run.members import one_line
from workers.cli import grants, pending
from workers.cli.base import (
    LIMIT_MAX,
    PAGE_COUNT,
    check_page,
    checked,
    command,
    tell_next,
    utc_option,
    version_or_time,
    with_ledger,
)
from workers.cli.description import call_in_line, description_lines
from workers.cli.ids import is_session, whole_ids
from workers.cli.output import CommandOutput
from workers.cli.tables import IdCell, Wide, at
from workers.presentation.moments import (
    Clients,
    MomentPage,
    approved_at,
    clients_of,
    moment_json,
    moment_page,
    project_grants,
)
from workers.presentation.words import headline

if TYPE_CHECKING:
    from ledger import Ledger

JSON_COUNT: Final = 1000
"""Rows of each list in the one object of `--json`."""


@command(
    "permission-ledger show ses_1",
    "permission-ledger show ses_1 --at 12 --json",
    "permission-ledger show ses_1 --at 2026-11-21T10:12:00Z",
    "permission-ledger show ses_1 --limit 20 --after 4711",
    "permission-ledger show call_42",
)
@click.argument("session", metavar="SESSION|REQUEST")
@click.option(
    "--at",
    metavar="VERSION|TIME",
    help="As of this version, or after the last event at or before a time (RFC 3339; a date is the end of that day, UTC).",
)
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    metavar="COUNT",
    help=f"The number of rows of each list (default: {PAGE_COUNT}; with --json: {JSON_COUNT}).",
)
@click.option(
    "--after", metavar="CURSOR", help="The settled requests before a page: with the cursor that it ended with."
)
@click.option("--all", "everything", is_flag=True, help="All rows of each list.")
@utc_option
@checked(check_page)
@with_ledger
async def show(
    ledger: Ledger,
    output: CommandOutput,
    *,
    session: str,
    at: str | None,
    limit: int | None,
    after: str | None,
    everything: bool,
) -> None:
    """Show what is pending, approved, connected and settled in a session: now, or as it was. Show a request by its id.

    Each list is a page: the requests that wait longest, the oldest grants, the newest settled requests. Its title, and
    `counts` with --json, has the length of the whole list; stderr, and `cursor`, how to see older settled requests.

    A pending request stands whole: its dangers, every member of its input, every pattern, who asks and why, and which
    characters look like others; a settled one with how it ended, and the words of a rejection.
    """
    request = await _request_named(ledger, output, session)
    if request is not None:
        if at is not None or limit is not None or after is not None or everything:
            raise InputError(f"`{session}` is a request; --at, --limit, --after and --all are for a session")
        await pending.print_request(ledger, output, request, None)
        return
    moment = await ledger.state_at(session, version_or_time(at))
    as_of_ms = await _as_of_ms(ledger, moment, at)
    standing = approved_at(moment.state, await project_grants(ledger, moment.state), as_of_ms)
    clients = await clients_of(ledger, moment.state, is_now=at is None)
    count = None if everything else limit or (JSON_COUNT if output.as_json else PAGE_COUNT)
    if output.as_json:
        output.row(moment_json(moment, standing, clients, limit=count, after=after))
        return
    page = moment_page(moment.state, standing, clients, count, after)
    if after is None:
        print_moment(output, moment, page, as_of_ms)
    rows = [_settled_cells(moment.state, one) for one in page.settled]
    _section(output, "settled", page.counts["settled"], SETTLED_COLUMNS, rows)
    if page.cursor is not None:
        tell_next(output, page.cursor)


async def _request_named(ledger: Ledger, output: CommandOutput, typed: str) -> str | None:
    """Return the request that a typed id or beginning means, None where a session has that id or nothing has."""
    if await is_session(ledger, typed):
        return None
    request: str = (await whole_ids(ledger, output, {"request": typed}))["request"]
    return request if (await ledger.lookups.of_request(request)).rows else None


async def _as_of_ms(ledger: Ledger, moment: Moment[SessionState], at: str | None) -> int:
    if at is None:
        return ledger.store.clock.now_ms()
    return moment.ms if isinstance(version_or_time(at), int) else parse_moment(at)


def print_moment(output: CommandOutput, moment: Moment[SessionState], page: MomentPage, as_of_ms: int) -> None:
    """Print the state for a person but for what is settled; each pending request in full below the table."""
    state = moment.state
    output.other_ids.update(state.pending, state.settled)
    output.line(f"session {state.session_id}, version {moment.version}, {format_time(moment.ms)}")
    closed = "" if state.closed_ms is None else f", closed {format_time(state.closed_ms)}"
    imported = "" if state.imported_ms is None else f", imported {format_time(state.imported_ms)}"
    output.line(f"project {state.project or '-'}, agent {state.agent or '-'}{imported}{closed}")
    rows = [pending.pending_cells(one) for one in page.pending]
    _section(output, "pending", page.counts["pending"], pending.COLUMNS, rows)
    for one in page.pending:
        output.line()
        output.line(f"request {one.request.request_id}:")
        for line in description_lines(one.request):
            output.line(f"  {line}")
    if len(page.pending) < page.counts["pending"]:
        output.line()
        output.line(f"all that is pending: permission-ledger pending --session {state.session_id}")
    _section(
        output,
        "approved",
        page.counts["approved"],
        grants.COLUMNS,
        [grants.approved_cells(one.as_json()) for one in page.approved],
    )
    if len(page.approved) < page.counts["approved"]:
        output.line(f"all that is approved: permission-ledger approved --session {state.session_id}")
    _print_clients(output, state, page.clients)


def _print_clients(output: CommandOutput, state: SessionState, clients: Clients) -> None:
    if clients.rows is None:
        output.line()
        output.line("clients online: unknown, their leases cannot be read")
        return
    lock = state.lock if records_clients(state) else None
    rows = [
        (one["client_id"], one["name"], at(one["since"]), "yes" * (one["client_id"] == lock)) for one in clients.rows
    ]
    name = "clients online" if clients.are == "online" else "clients on record"
    _section(output, name, len(rows), ("client", "name", "since", "input lock"), rows)


SETTLED_COLUMNS = ("request", Wide("what was asked"), Wide("outcome"), "at", "run")


def _settled_cells(state: SessionState, request_id: str) -> tuple[object, ...]:
    result = result_of(state, request_id)
    settled = result.settled
    outcome = headline(result)
    if settled is not None and settled.outcome == "corrected" and settled.message:
        outcome += f": {one_line(settled.message)}"
    outcome += " (imported)" if settled and settled.imported else ""
    # Who claimed the call, and whether it has run.
    held = None if settled is None else settled.claim
    run = None if held is None else f"{RUNS[held.status]} ({held.runner})"
    return (IdCell(request_id), call_in_line(result.request), outcome, at(result.at), run)


RUNS: Final = {
    "open": "may have run: no end recorded yet",
    "unknown": "may have run: its end is not known",
    "finished": "has run",
    "released": "not run: the claim was released",
}


def _section(
    output: CommandOutput, title: str, count: int, columns: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    some = "" if len(rows) == count else f"{len(rows)} of "
    output.line()
    output.line(f"{title}: {some}{count or 'none'}")
    if rows:
        output.table(columns, rows)
