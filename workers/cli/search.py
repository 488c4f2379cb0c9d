"""`search`: requests by words and conditions, from the index that an indexer keeps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.core.errors import InputError
from workers.cli.base import checked, command, with_ledger
from workers.cli.output import CommandOutput, talk, talk_json
from workers.cli.paging import PAGE_COUNT, Pages, print_pages
from workers.cli.shared_options import index_file_option
from workers.indexer.reader import OUTCOMES, IndexLag, IndexReader, SearchQuery, deployment_of, lag_of, parse_query
from workers.indexer.schema import default_file
from workers.presentation.text import revealed

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS: Final = ("asked", "outcome", "by", "reason", "permission", "would run", "agent", "project", "session@version")

LIMIT_MAX: Final = 1000


def _check(*, text: tuple[str, ...], **options: Any) -> None:
    """Refuse what cannot be parsed before a server is reached."""
    parse_query(" ".join(text), _conditions(options), now_ms=0, cursor=options["after"])


@command(
    examples=(
        "permission-ledger search 'git push'",
        "permission-ledger search git push --by ann --outcome allowed --since 30d",
        "permission-ledger search 'by:ann project:shop rm*' --json --limit 20",
    )
)
@click.argument("text", nargs=-1, metavar="[WORDS]...")
@click.option("--by", metavar="NAME", help="Only what this person answered.")
@click.option("--outcome", metavar="OUTCOME", help=f"Only this outcome: {', '.join(OUTCOMES)}.")
@click.option("--since", metavar="TIME|DURATION", help="Asked at this time or later; `30d` is 30 days ago.")
@click.option("--until", metavar="TIME|DURATION", help="Asked at this time or before.")
@click.option("--project", metavar="PROJECT", help="Only requests of this project.")
@click.option("--agent", metavar="NAME", help="Only requests of this agent.")
@click.option("--permission", metavar="NAME", help="Only requests for this permission.")
@click.option("--session", metavar="SESSION", help="Only requests of this session.")
@click.option("--rule", metavar="WORDS", help="Only requests that a rule with these words decided.")
@click.option("--grant", metavar="GRANT", help="Only requests that made or used this grant.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=PAGE_COUNT, metavar="COUNT", help="Rows to show.")
@click.option("--after", metavar="CURSOR", help="Go on after a page: with the cursor that it ended with.")
@index_file_option
@checked(_check)
@with_ledger
async def search(
    ledger: Ledger,
    output: CommandOutput,
    *,
    text: tuple[str, ...],
    limit: int,
    after: str | None,
    file: Path | None,
    **conditions: str | None,
) -> None:
    """Find requests by words of their commands, paths, inputs and feedback, the newest first.

    Conditions may stand in the text, too: `by:NAME project:shop`. A `*` ends a word that goes on. `permission-ledger
    worker indexer` keeps the index; stderr says how far it is behind the log.
    """
    query = parse_query(" ".join(text), conditions, now_ms=await ledger.store.now_ms(), cursor=after)
    with closing(IndexReader(file or default_file())) as index:
        if index.deployment not in ("", await deployment_of(ledger.store)):
            raise InputError(f"`{index.path}` is the index of another ledger; name another one with --file")
        lag = await lag_of(ledger.store, index)
        shown = await print_pages(output, _rows(index, query, limit), limit, COLUMNS, _cells)
    if not (shown or output.as_json):
        talk("no request matches")
    _tell_lag(output, lag)


def _conditions(options: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: value for name, value in options.items() if name not in ("limit", "after", "file", "url", "as_json")}


async def _rows(index: IndexReader, query: SearchQuery, limit: int) -> Pages:
    # One more than fits tells whether there is another page.
    for one in index.search(query, limit + 1).found:
        yield str(one.request.id), one.as_json()


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        row["asked_at"],
        row["outcome"],
        row["by"],
        revealed(row["reason"]) or None,
        revealed(row["permission"]),
        revealed(row["call"]),
        row["agent"],
        row["project"],
        f"{row['session']}@{row['version']}",
    )


def _tell_lag(output: CommandOutput, lag: IndexLag) -> None:
    """Tell what the index lacks, if it lacks anything."""
    if output.as_json:
        talk_json({"lag": {"sessions": lag.sessions, "events": lag.events, "whole": lag.whole}})
        return
    if lag.sessions:
        talk(f"the index is {lag.events} events of {lag.sessions} sessions behind the log; is an indexer running?")
    if not lag.whole:
        talk("the index is not whole: an indexer reads the log into it, or has to be started")
