"""`sql`: a query over all events, on the server and in the archive, and over the stored rules."""

from __future__ import annotations

import asyncio
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.core.extras import require_extra
from workers.cli.base import command, with_ledger
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput, talk
from workers.upkeep.event_database import EventDatabase, QueryRows
from workers.upkeep.event_loading import Loaded, load_events

if TYPE_CHECKING:
    from ledger import Ledger

ROWS_COUNT: Final = 1000
"""The rows that are printed, unless --limit says otherwise."""

FAILED_COUNT: Final = 20
"""The streams that could not be read and are named one by one."""


@command(
    examples=(
        "permission-ledger sql 'SELECT permission, outcome, count(*) FROM events GROUP BY ALL ORDER BY ALL'",
        "permission-ledger sql \"SELECT stream, x->'$.patterns' FROM events WHERE type = 'asked'\" --json",
        "permission-ledger sql \"SELECT * FROM rules WHERE action = 'allow' AND pattern = '*'\"",
        "permission-ledger sql 'DESCRIBE events'",
    )
)
@click.argument("query")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=ROWS_COUNT,
    show_default=True,
    metavar="COUNT",
    help="The most rows that are printed; 0 for all.",
)
@with_ledger
async def sql(ledger: Ledger, output: CommandOutput, *, query: str, limit: int) -> int:
    """Run one SELECT of DuckDB's SQL over the tables `events`, on the server and in the archive, and `rules`.

    The columns of `events` are those of the archive's files: stream, version, ms, type, request, person, permission,
    outcome, d, x. Each event is there once. `rules` has each stored rule: digest, dialect, number, action, permission,
    pattern, layer, place. The query reads only, and reaches no file and no network. Events on the server are copied
    to a temporary file first. The exit code is 11 if a stream could not be read, which is named.
    """
    require_extra("archive", "`sql`")
    with tempfile.TemporaryDirectory(prefix="permission-ledger-sql-") as folder:
        database = await asyncio.to_thread(EventDatabase, Path(folder))
        try:
            loaded = await load_events(ledger, database)
            answer = await _asked(database, query, limit or None)
        finally:
            database.close()
    _tell(output, answer, limit)
    return _tell_failed(loaded)


async def _asked(database: EventDatabase, query: str, count: int | None) -> QueryRows:
    asking = asyncio.create_task(asyncio.to_thread(database.ask, query, count), name="ledger sql")
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        # A thread is not cancelled; without its end the database could not be closed.
        database.interrupt()
        await asyncio.gather(asking, return_exceptions=True)
        raise


def _tell(output: CommandOutput, answer: QueryRows, limit: int) -> None:
    if output.as_json:
        output.rows(dict(zip(answer.columns, map(plain, row), strict=True)) for row in answer.rows)
    elif answer.rows:
        output.table(answer.columns, [[_cell(value) for value in row] for row in answer.rows])
    else:
        talk("no rows")
    if answer.has_more:
        talk(f"the first {limit} rows; there are more: --limit COUNT prints as many, --limit 0 all")


def _tell_failed(loaded: Loaded) -> int:
    for name, why in list(loaded.failed.items())[:FAILED_COUNT]:
        talk(f"warning: without `{name}`: {why}")
    if len(loaded.failed) > FAILED_COUNT:
        talk(f"warning: {len(loaded.failed)} streams could not be read; `verify --all` names them")
    return Exit.FINDINGS if loaded.failed else Exit.DONE


def _cell(value: object) -> object:
    return value if value is None or isinstance(value, str) else plain(value)


def plain(value: Any) -> Any:
    """Return a value of DuckDB as one of JSON: numbers, texts, lists and objects; everything else as its text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {str(name): plain(one) for name, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case bytes() | bytearray():
            return value.hex()
        case _:
            return str(value)
