"""The layout of the demo: aligned columns, colour on a terminal only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workers.presentation.text import visible

PIPE_WIDTH_CHARS: Final = 160
"""The width without a terminal, where lines may be long."""

COLOURS: Final = {
    "allowed": "green",
    "waits": "yellow",
    "denied": "red",
    "rejected": "red",
    "corrected": "red",
    "expired": "magenta",
}


class ScreenLine(NamedTuple):
    """One line of the story: time (ms from the beginning), actor, sentence, and the outcome that colours it."""

    ms: int
    who: str
    text: str
    outcome: str = ""


class Screen:
    """stdout for a person."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        if os.environ.get("NO_COLOR"):
            # No escape sequences at all: bold and dim are some too.
            self._console = Console(highlight=False, color_system=None)
        if not self._console.is_terminal:
            self._console.width = PIPE_WIDTH_CHARS

    @property
    def width(self) -> int:
        return self._console.width

    def text(self, text: str = "", style: str = "") -> None:
        self._console.print(Text(visible(text), style))

    def title(self, text: str) -> None:
        self.text()
        self.text(text, "bold")

    def fact(self, name: str, value: str) -> None:
        """Print a name and its value, the value wrapped in its own column."""
        grid = _grid(12)
        grid.add_column(ratio=1)
        grid.add_row(Text(f"  {name}", "dim"), Text(visible(value)))
        self._print(grid)

    def story(self, line: ScreenLine) -> None:
        grid = _grid(7, 8)
        grid.add_column(ratio=1)
        text = Text(visible(line.text), COLOURS.get(line.outcome, ""))
        grid.add_row(Text(f"{line.ms / 1000:6.2f}s", "dim"), Text(visible(line.who), "bold"), text)
        self._print(grid)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for number, column in enumerate(columns):
            table.add_column(f"  {column}" if number == 0 else column, no_wrap=True, overflow="ellipsis")
        for first, *cells in rows:
            table.add_row(Text(f"  {visible(first)}"), *(Text(visible(cell), COLOURS.get(cell, "")) for cell in cells))
        self._print(table)

    def _print(self, table: Table) -> None:
        if self._console.is_terminal:
            self._console.print(table)
            return
        with self._console.capture() as captured:
            self._console.print(table)
        # Columns are padded with spaces, which a pipe does not need.
        for line in captured.get().splitlines():
            self._console.print(Text(line.rstrip()), soft_wrap=True)


def _grid(*widths: int) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for width in widths:
        grid.add_column(width=width, no_wrap=True, overflow="ellipsis")
    return grid
