"""The output of commands: data to stdout, messages to stderr, tables for people, JSON lines for programs, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import click

from workers.presentation.text import json_line, visible, without_passwords

if TYPE_CHECKING:
    from ledger.log.surveys import StreamProblem


class Exit(IntEnum):
    DONE = 0
    OUR_FAULT = 1
    USAGE = 2
    DENIED = 3
    REJECTED = 4
    EXPIRED = 5
    CANCELLED = 6
    PENDING = 7
    UNREACHABLE = 8
    UNKNOWN = 9
    ANSWERED_OTHERWISE = 10
    FINDINGS = 11
    BAD_INPUT = 12
    CLAIMED = 13
    FROZEN = 14
    INTERRUPTED = 130
    CLOSED_PIPE = 141


WORST_FIRST: Final = (
    Exit.OUR_FAULT,
    Exit.UNREACHABLE,
    Exit.FINDINGS,
    Exit.BAD_INPUT,
    Exit.FROZEN,
    Exit.CLAIMED,
    Exit.UNKNOWN,
    Exit.DENIED,
    Exit.CANCELLED,
    Exit.EXPIRED,
    Exit.PENDING,
    Exit.ANSWERED_OTHERWISE,
    Exit.DONE,
)
"""The possible codes of several replies, the worst first."""


def worst(codes: Sequence[Exit]) -> Exit:
    """Return the exit code of a command with several results."""
    return min(codes, key=WORST_FIRST.index)


OF_OUTCOME: Final = {
    "allowed": Exit.DONE,
    "denied": Exit.DENIED,
    "rejected": Exit.REJECTED,
    "corrected": Exit.REJECTED,
    "expired": Exit.EXPIRED,
    "cancelled": Exit.CANCELLED,
    None: Exit.PENDING,
}
"""The exit code by a request's outcome; None is a pending request."""


T = TypeVar("T")

_GAP: Final = "  "
_WIDE_COLUMNS: Final = 120


class CommandOutput:
    """The output of one command. Control characters in texts are escaped, so that none reaches the terminal raw."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def line(self, text: str = "") -> None:
        """Print one line of data for a person."""
        _to_stdout(visible(text))

    def row(self, value: Mapping[str, Any]) -> None:
        """Print one JSON object."""
        _to_stdout(json_line(value))

    def written_rows(self, lines: bytes) -> None:
        """Print JSON objects that `json_line` has written, a line each."""
        if lines:
            _to_stdout(lines.decode().removesuffix("\n"))

    def rows(self, values: Iterable[Mapping[str, Any]]) -> None:
        for value in values:
            self.row(value)

    def result(self, row: Mapping[str, Any], *lines: str) -> None:
        """Print one JSON object, or the lines that say it to a person."""
        if self.as_json:
            self.row(row)
        else:
            for line in lines:
                self.line(line)

    def aside(self, row: Mapping[str, Any], *lines: str) -> None:
        """Print the same on stderr."""
        if self.as_json:
            talk_json(row)
        else:
            for line in lines:
                talk(line)

    def listing(
        self,
        found: Sequence[T],
        as_json: Callable[[T], Mapping[str, Any]],
        columns: Sequence[str],
        cells: Callable[[T], Sequence[object]],
        *,
        none: str = "",
    ) -> None:
        """Print a JSON object for each, or a table; `none` is the message on stderr if there are none."""
        if self.as_json:
            self.rows(map(as_json, found))
        elif found:
            self.table(columns, map(cells, found))
        elif none:
            talk(none)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table on a terminal, aligned columns elsewhere; nothing is cut off. None is shown as `-`.

        On a terminal of fewer than 120 columns that is too narrow for the table each row is a block of lines.
        """
        cells = [["-" if cell is None else visible(str(cell)) for cell in row] for row in rows]
        if sys.stdout.isatty():
            _on_terminal(columns, cells)
            return
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        for row in (columns, *cells):
            _to_stdout(_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


class GrowingTable(Generic[T]):
    """Rows that come one by one: a program gets each at once; a person's table needs all of them.

    With `optional` a table whose last column is empty lacks it.
    """

    def __init__(
        self,
        output: CommandOutput,
        columns: Sequence[str],
        cells: Callable[[T], Sequence[object]],
        as_json: Callable[[T], Mapping[str, Any]],
        *,
        optional: bool = False,
    ) -> None:
        self._output, self._columns, self._cells, self._as_json = output, columns, cells, as_json
        self._optional = optional
        self._rows: list[Sequence[object]] = []

    def add(self, one: T) -> None:
        if self._output.as_json:
            self._output.row(self._as_json(one))
        else:
            self._rows.append(self._cells(one))

    def end(self) -> None:
        """Print the table of the rows so far."""
        if self._rows:
            count = len(self._columns) - (self._optional and all(row[-1] is None for row in self._rows))
            self._output.table(self._columns[:count], [row[:count] for row in self._rows])
        self._rows = []


def talk(text: str) -> None:
    """Print one line on stderr, for the person at the terminal."""
    click.echo(visible(without_passwords(text)), err=True)


def talk_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stderr, for a program that asked for JSON."""
    click.echo(without_passwords(json_line(value)), err=True)


def _to_stdout(line: str) -> None:
    try:
        print(line, flush=True)
    except BrokenPipeError:
        silence_stdout()
        raise click.exceptions.Exit(Exit.CLOSED_PIPE) from None


def silence_stdout() -> None:
    """Discard what Python flushes at exit, since the reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _on_terminal(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - slow to import, and only people need it
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    if console.width < _WIDE_COLUMNS and sum(widths) + len(_GAP) * len(widths) > console.width:
        _blocks(columns, rows)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text, not str: an agent's square brackets are no markup.
        table.add_row(*map(Text, row))
    console.print(table)


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    width = max(map(len, columns))
    for row in rows:
        _to_stdout(row[0])
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell not in ("", "-"):
                _to_stdout(f"{_GAP}{column.ljust(width)}{_GAP}{cell}")


def tell_problems(output: CommandOutput, problems: Sequence[StreamProblem]) -> Exit:
    """Name each stream on stderr; return the exit code of the command."""
    for one in problems:
        output.aside(one.as_json(), f"warning: {one.text}")
    if problems and not output.as_json:
        talk("hint: `permission-ledger verify --all` says which events are wrong")
    return Exit.FINDINGS if problems else Exit.DONE


Advance = Callable[[int], None]


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """Yield a function to call with the number of items done since; `total` None if it is unknown.

    The bar has the number of items, their rate, and the time left.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import, and only people need it
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text  # noqa: PLC0415

    class Rate(ProgressColumn):
        """The items done a second."""

        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s")

    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate()),
        *(TimeElapsedColumn(), TimeRemainingColumn()),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
