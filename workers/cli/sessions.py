"""`sessions`: the sessions in pages, so that no worker needs to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.log.surveys import StreamProblem
from projections.session_list import SessionList
from projections.sessions import Latest
from workers.cli.base import checked, command, with_ledger
from workers.cli.output import CommandOutput, talk
from workers.cli.paging import Pages, check_page, page_count, paged, print_pages
from workers.cli.problems import tell_problems

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("session", "project", "agent", "opened", "last event", "events", "pending", "closed")

READ_COUNT: Final = 500
"""Sessions read at once."""


@command(
    examples=(
        "permission-ledger sessions",
        "permission-ledger sessions --project shop --json",
        "permission-ledger sessions --limit 20 --after 1763979120000-ses_1",
    )
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
    """List the sessions, the one with the newest event first.

    A table shows a page of 50, and stderr how to see the next; `--json` prints all, as they are read. Sessions on the
    page that are damaged are named on stderr (exit code 11), beside all others.
    """
    count = page_count(output, limit, everything=everything)
    start = None if after is None else Latest.of_cursor(after)
    problems: list[StreamProblem] = []
    listed = SessionList(ledger.store, ledger.streams, project=project, parent=parent)
    rows = _rows(listed, start, READ_COUNT if count is None else min(count + 1, READ_COUNT), problems, only_open)
    shown = await print_pages(output, rows, count, COLUMNS, _cells)
    if not (shown or problems or after or output.as_json):
        talk("there is no session")
    return tell_problems(output, problems)


async def _rows(
    listed: SessionList, after: Latest | None, count: int, problems: list[StreamProblem], only_open: bool
) -> Pages:
    """Iterate over the cursors and rows of sessions; note what is wrong with streams."""
    async for page in listed.pages(after, count):
        problems += page.problems
        for one in page.rows:
            if not (only_open and one.row["closed_at"] is not None):
                yield one.cursor, one.row


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    shown = dict(row)
    if "imported_at" in row:
        shown["opened_at"] = f"{row['opened_at']} (imported)"
    names = ("session", "project", "agent", "opened_at", "at", "version", "pending", "closed_at")
    return tuple(shown[name] for name in names)
