"""Lists in pages: `--limit`, `--after`, `--all`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from workers.cli.base import Run
from workers.cli.output import CommandOutput, talk, talk_json

PAGE_COUNT: Final = 50
LIMIT_MAX: Final = 100_000
TABLE_COUNT: Final = 1000
"""Rows of one table: the columns are as wide as their cells, so a table is in memory."""

R = TypeVar("R")

PagesOf = AsyncIterator[tuple[str, R]]
"""Rows, each with the cursor of what follows it."""

Pages = PagesOf[Mapping[str, Any]]
"""Rows that are printed with `--json` as they are."""


def limited(function: Run) -> Run:
    """Add `--limit` and `--after`; without `--limit` a list is shown whole."""
    return _limited(function, "all")


def paged(function: Run) -> Run:
    """Add `--limit`, `--after` and `--all` (as `everything`)."""
    every = click.option("--all", "everything", is_flag=True, help="All of them, as they are read.")
    return _limited(every(function), f"{PAGE_COUNT}; with --json: all")


def _limited(function: Run, default: str) -> Run:
    after = click.option("--after", metavar="CURSOR", help="Go on after a page: with the cursor that it ended with.")
    text = f"The number of rows (default: {default})."
    return click.option("--limit", type=click.IntRange(1, LIMIT_MAX), metavar="COUNT", help=text)(after(function))


async def each(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Pages:
    """Iterate over rows that are in memory, each with its cursor."""
    for one in rows:
        yield one


def check_page(*, limit: int | None, everything: bool, **_others: object) -> None:
    if everything and limit is not None:
        raise click.UsageError("give --limit COUNT or --all, not both")


def page_count(output: CommandOutput, limit: int | None, *, everything: bool) -> int | None:
    """Return the number of rows to show; None is all."""
    if limit is not None:
        return limit
    return None if everything or output.as_json else PAGE_COUNT


async def print_pages(
    output: CommandOutput,
    rows: Pages,
    count: int | None,
    columns: Sequence[str],
    cells: Callable[[Mapping[str, Any]], Sequence[object]],
) -> int:
    """Print at most `count` rows as they come, and how to go on; return the number of rows."""
    return await print_pages_of(output, rows, count, columns, cells, as_row=lambda row: row)


async def print_pages_of(
    output: CommandOutput,
    rows: PagesOf[R],
    count: int | None,
    columns: Sequence[str],
    cells: Callable[[R], Sequence[object]],
    *,
    as_row: Callable[[R], Mapping[str, Any]],
    optional: bool = False,
) -> int:
    """Print rows of any kind in the same way. With `optional` a table whose last column is empty lacks it."""
    shown = 0
    cursor = ""
    table: list[Sequence[object]] = []
    async for place, row in rows:
        if shown == count:
            _print_table(output, columns, table, optional=optional)
            tell_next(output, cursor)
            break
        shown, cursor = shown + 1, place
        if output.as_json:
            output.row(as_row(row))
            continue
        table.append(cells(row))
        if len(table) == TABLE_COUNT:
            _print_table(output, columns, table, optional=optional)
    _print_table(output, columns, table, optional=optional)
    return shown


def _print_table(
    output: CommandOutput, columns: Sequence[str], rows: list[Sequence[object]], *, optional: bool
) -> None:
    if rows:
        count = len(columns) - (optional and all(row[-1] is None for row in rows))
        output.table(columns[:count], [row[:count] for row in rows])
        rows.clear()


def tell_next(output: CommandOutput, cursor: str) -> None:
    """Tell the cursor after which the next page begins."""
    if output.as_json:
        talk_json({"cursor": cursor})
    else:
        talk(f"there are more: repeat it with `--after {cursor}`")
