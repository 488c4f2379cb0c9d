"""The output of commands: data to stdout, messages to stderr, tables for people, JSON lines for programs, exit codes."""

from __future__ import annotations

import os
import sys
import time
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


def _local_ms() -> int:
    return time.time_ns() // 1_000_000


class CommandOutput:
    """The output of one command. Control characters in texts are escaped, so that none reaches the terminal raw."""

    def __init__(self, *, as_json: bool = False, utc: bool = False, now_ms: Callable[[], int] = _local_ms) -> None:
        self.as_json, self.utc, self.now_ms = as_json, utc, now_ms
        self.other_ids: set[str] = set()
        """Ids that are not in a table, and that a short one in it must not begin."""

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
        """Print a table: as `workers.cli.tables` says, aligned columns with nothing cut off where it is no terminal."""
        from workers.cli.tables import TableLook, plain_lines, print_on_terminal  # noqa: PLC0415 - only people need it

        rows = list(rows)
        is_terminal = sys.stdout.isatty()
        look = TableLook(is_terminal=is_terminal, utc=self.utc, now_ms=self.now_ms(), others=self.other_ids)
        texts = look.texts(rows)
        if is_terminal:
            print_on_terminal(columns, rows, texts)
            return
        for line in plain_lines(columns, texts):
            _to_stdout(line)


class GrowingTable(Generic[T]):
    """Rows that come one by one: a program gets each at once; a person's table needs all of them."""

    def __init__(
        self,
        output: CommandOutput,
        columns: Sequence[str],
        cells: Callable[[T], Sequence[object]],
        as_json: Callable[[T], Mapping[str, Any]],
    ) -> None:
        self._output, self._columns, self._cells, self._as_json = output, columns, cells, as_json
        self._rows: list[Sequence[object]] = []

    def add(self, one: T) -> None:
        if self._output.as_json:
            self._output.row(self._as_json(one))
        else:
            self._rows.append(self._cells(one))

    def end(self) -> None:
        """Print the table of the rows so far."""
        if self._rows:
            self._output.table(self._columns, self._rows)
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
