"""Tables for people: what a terminal shows shorter than a file, and columns that fit its width.

A file gets whole ids and times of RFC 3339, so that what reads it twice reads the same. A terminal gets the shortest unique
beginning of each id, the time since or until a moment, and what it can be read by: no id and no word is broken while the
terminal has room for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final, Self

from ledger.core.times import parse_time
from workers.presentation.text import visible

GAP: Final = "  "
INDENT: Final = "  "
WIDE_CHARS_MIN: Final = 40
"""Columns for the texts of a row; with fewer they stand on lines of their own, below the row."""

ID_CHARS_MIN: Final = 12
"""Characters of a short id, at least: beginnings of fewer are soon those of other ids, too."""


class IdCell(str):
    """An id; a terminal shows its shortest unique beginning."""

    __slots__ = ()


class At(str):
    """A time of RFC 3339; a terminal shows how long ago it was, or in how long it comes."""

    __slots__ = ()


class Styled(str):
    """A text with a style of rich, for a terminal that has colours."""

    __slots__ = ("style",)

    style: str

    def __new__(cls, text: str, style: str) -> Self:
        made = super().__new__(cls, text)
        made.style = style
        return made


class Wide(str):
    """The name of a column of texts, which gets the width that the others leave, and wraps at words."""

    __slots__ = ()


def at(text: str | None, otherwise: str = "-") -> At | str:
    """Return the cell of a time that may be absent."""
    return otherwise if text is None else At(text)


def relative(text: str, now_ms: int) -> str:
    """Return a time as seen from now: `4s ago`, `in 6d`."""
    from workers.presentation.words import about  # noqa: PLC0415 - slow to import, and only people need it

    ms = parse_time(text)
    return f"in {about(ms - now_ms)}" if ms > now_ms else f"{about(now_ms - ms)} ago"


def short_ids(ids: Collection[str], others: Collection[str] = ()) -> dict[str, str]:
    """Return the shortest beginning of each id that no other one of these has, of at least 12 characters."""
    known = sorted({*ids, *others})
    shared = [0, *(_shared(one, then) for one, then in pairwise(known)), 0]
    needed = {one: max(shared[at], shared[at + 1]) + 1 for at, one in enumerate(known)}
    return {one: one[: max(needed[one], ID_CHARS_MIN)] for one in ids}


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts begin alike with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class TableLook:
    """How cells are shown: as they are in a file, short on a terminal. `others` are ids that short ones must not begin."""

    def __init__(self, *, is_terminal: bool, utc: bool, now_ms: int, others: Collection[str] = ()) -> None:
        self.is_terminal, self._utc, self._now_ms, self._others = is_terminal, utc, now_ms, others

    def texts(self, rows: Sequence[Sequence[object]]) -> list[list[str]]:
        """Return the texts of all cells; None is `-`."""
        ids = {cell for row in rows for cell in row if isinstance(cell, IdCell)} if self.is_terminal else set()
        short = short_ids(ids, self._others)
        return [[self._text(cell, short) for cell in row] for row in rows]

    def _text(self, cell: object, short: dict[str, str]) -> str:
        if cell is None:
            return "-"
        if isinstance(cell, IdCell):
            return visible(short.get(cell, cell))
        if isinstance(cell, At) and self.is_terminal and not self._utc:
            return relative(cell, self._now_ms)
        return visible(str(cell))


def plain_lines(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield aligned lines for a file; nothing is cut or wrapped."""
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for row in (columns, *texts):
        yield GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def print_on_terminal(columns: Sequence[str], rows: Sequence[Sequence[object]], texts: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the terminal: texts beside the other cells if there is room for them, else below."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and only people need it
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False, width=shutil.get_terminal_size().columns)
    wide = [number for number, column in enumerate(columns) if isinstance(column, Wide)]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    left = console.width - sum(widths[at] + len(GAP) for at in range(len(columns)) if at not in wide)
    needed = sum(min(widths[at], WIDE_CHARS_MIN // len(wide)) for at in wide)
    beside = left >= needed + len(GAP) * max(len(wide) - 1, 0)
    shown = [at for at in range(len(columns)) if beside or at not in wide]

    def cell(row: Sequence[object], line: Sequence[str], at: int) -> Text:
        # Text, not str: an agent's square brackets are no markup.
        one = row[at]
        return Text(line[at], style=one.style if isinstance(one, Styled) else "")

    def table(lines: Sequence[tuple[Sequence[object], Sequence[str]]], *, head: bool) -> Table:
        made = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), show_header=head, header_style="bold")
        for at in shown:
            is_wide = at in wide
            made.add_column(
                columns[at], no_wrap=not is_wide, overflow="fold", min_width=None if beside and is_wide else widths[at]
            )
        for row, line in lines:
            made.add_row(*(cell(row, line, at) for at in shown))
        return made

    lines = list(zip(rows, texts, strict=True))
    if beside:
        console.print(table(lines, head=True))
        return
    for number, (row, line) in enumerate(lines):
        console.print(table([(row, line)], head=number == 0))
        for at in wide:
            if line[at] not in ("", "-"):
                label = f"{columns[at]}: " if len(wide) > 1 else ""
                console.print(Padding(Text(label).append_text(cell(row, line, at)), (0, 0, 0, len(INDENT))))
