"""`sessions` and `access`: the sessions in pages, so that no worker needs to run; and who read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.core.times import format_time, parse_time
from ledger.log.reads import KINDS, RecordedRead, recorded
from ledger.log.surveys import StreamProblem
from projections.session_list import SessionList
from projections.sessions import Latest
from workers.cli.base import (
    check_page,
    checked,
    command,
    page_count,
    paged,
    print_pages,
    read_count,
    rows_of,
    utc_option,
    with_ledger,
)
from workers.cli.output import CommandOutput, talk, tell_problems
from workers.cli.tables import At, IdCell, Wide

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("session", "project", "agent", "last event", "pending", "state")


@command(
    "permission-ledger sessions",
    "permission-ledger sessions --project shop --json",
    "permission-ledger sessions --limit 20 --after 1763979120000-ses_1",
)
@click.option("--project", metavar="PROJECT", help="Only the sessions of this project.")
@click.option("--parent", metavar="SESSION", help="Only the sub-agents' sessions below this one.")
@click.option("--open", "only_open", is_flag=True, help="Only those that are not closed.")
@paged
@checked(check_page)
@with_ledger
async def sessions(
    ledger: Ledger,
    output: CommandOutput,
    *,
    project: str | None,
    parent: str | None,
    only_open: bool,
    limit: int | None,
    after: str | None,
    everything: bool,
) -> int:
    """List the sessions, the one with the newest event first."""
    count = page_count(output, limit, everything=everything)
    start = None if after is None else Latest.of_cursor(after)
    problems: list[StreamProblem] = []
    listed = SessionList(ledger.store, ledger.streams, project=project, parent=parent)
    found = rows_of(listed.pages(start, read_count(count)), problems)
    rows = ((cursor, row) async for cursor, row in found if not (only_open and row["closed_at"] is not None))
    shown = await print_pages(output, rows, count, COLUMNS, _cells)
    if not (shown or problems or after or output.as_json):
        talk("there is no session")
    return tell_problems(output, problems)


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    state = "open" if row["closed_at"] is None else "closed"
    imported = ", imported" if "imported_at" in row else ""
    return (IdCell(row["session"]), row["project"], row["agent"], At(row["at"]), row["pending"], state + imported)


ACCESS_COLUMNS: Final = ("at", "kind", "who", "session", Wide("what"), "from")
COUNT_DEFAULT: Final = 200
COUNT_MAX: Final = 10_000


@command(
    "permission-ledger access",
    "permission-ledger access --kind failed_sign_in --since 2026-01-31T00:00:00Z",
    "permission-ledger access --session ses_1 --json",
)
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only reads of this kind; repeatable.")
@click.option("--who", metavar="NAME", help="Only those of this person.")
@click.option("--session", metavar="SESSION", help="Only those of this session.")
@click.option("--since", metavar="TIME", help="Only those from this time on, RFC 3339.")
@click.option(
    "--limit",
    type=click.IntRange(1, COUNT_MAX),
    default=COUNT_DEFAULT,
    show_default=True,
    help="The number of rows, newest ones.",
)
@utc_option
@with_ledger
async def access(
    ledger: Ledger,
    output: CommandOutput,
    *,
    kinds: Any,
    who: str | None,
    session: str | None,
    since: str | None,
    limit: int,
) -> None:
    """List who signed in, tried to, looked at a session or an answer link, or took an export, oldest first.

    The gateway records requests to it. Reads of the server itself are not recorded.
    """
    since_ms = 0 if since is None else parse_time(since)
    found = await recorded(ledger.store, tuple(kinds) or KINDS, since_ms=since_ms, count=COUNT_MAX)
    rows = [
        one
        for one in found
        if (who is None or one.read.name == who) and (session is None or one.read.session == session)
    ][-limit:]
    output.listing(rows, RecordedRead.as_json, ACCESS_COLUMNS, _read_cells, none="nothing was recorded")


def _read_cells(one: RecordedRead) -> tuple[object, ...]:
    read = one.read
    who = f"{read.name} ({read.via})" if read.via else read.name
    what = f"{read.what or '-'} ({read.count} times)" if read.count > 1 else read.what
    session = None if read.session is None else IdCell(read.session)
    return (At(format_time(one.ms)), read.kind, who, session, what, read.address)
