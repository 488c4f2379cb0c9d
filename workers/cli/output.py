"""The output of commands: data to stdout, messages to stderr; tables for people, JSON lines for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from workers.cli.exits import Exit
from workers.presentation.text import json_line, visible, without_passwords

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
    """Print each row as a block: its first cell, then a line for each other cell that says something."""
    width = max(map(len, columns))
    for row in rows:
        _to_stdout(row[0])
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell not in ("", "-"):
                _to_stdout(f"{_GAP}{column.ljust(width)}{_GAP}{cell}")
