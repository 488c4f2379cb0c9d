"""Results of a run: figures of rounds, rows with their targets, the table and the JSON."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Literal, get_args

import msgspec
from rich.console import Console
from rich.table import Table

Fsync = Literal["everysec", "always"]
FSYNCS: tuple[Fsync, ...] = get_args(Fsync)

JSON_VERSION = 1


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. With `base` the target limits the ratio to it, otherwise the value itself."""

    name: str
    what: str
    fsync: Fsync
    value: float
    unit: str
    base: str | None = None
    base_value: float | None = None
    ratio: float | None = None
    relation: Literal["at most", "at least"]
    target: float
    holds: bool


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the bench, in the form of `--json`."""

    version: int = JSON_VERSION
    quick: bool
    rounds: int
    server: str
    python: str
    processors: int
    rows: list[Row]


class Rounds:
    """Figures by name, one a round. Ratios are taken within a round, so that a slow machine slows both sides."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._figures: dict[tuple[Fsync, str], list[float]] = defaultdict(list)

    def add(self, fsync: Fsync, figure: str, value: float) -> None:
        self._figures[fsync, figure].append(value)

    def median(self, fsync: Fsync, figure: str) -> float:
        return median(self._figures[fsync, figure])

    def ratio(self, fsync: Fsync, figure: str, base: str) -> float:
        pairs = zip(self._figures[fsync, figure], self._figures[fsync, base], strict=True)
        return median(value / floor for value, floor in pairs)

    def compared(
        self,
        what: str,
        fsync: Fsync,
        figure: str,
        unit: str,
        base: str,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> Row:
        """Return a row whose target limits the ratio to another figure of the same rounds."""
        ratio = self.ratio(fsync, figure, base)
        relation, target, holds = _judged(ratio, at_most, at_least)
        return Row(
            name=self.name,
            what=what,
            fsync=fsync,
            value=self.median(fsync, figure),
            unit=unit,
            base="floor" if base.startswith("floor") else base,
            base_value=self.median(fsync, base),
            ratio=ratio,
            relation=relation,
            target=target,
            holds=holds,
        )

    def plain(
        self,
        what: str,
        fsync: Fsync,
        figure: str,
        unit: str,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> Row:
        """Return a row whose target limits the figure itself."""
        value = self.median(fsync, figure)
        relation, target, holds = _judged(value, at_most, at_least)
        return Row(
            name=self.name,
            what=what,
            fsync=fsync,
            value=value,
            unit=unit,
            relation=relation,
            target=target,
            holds=holds,
        )


def _judged(
    value: float, at_most: float | None, at_least: float | None
) -> tuple[Literal["at most", "at least"], float, bool]:
    if at_most is not None:
        return "at most", at_most, value <= at_most
    assert at_least is not None, "a row has a target"
    return "at least", at_least, value >= at_least


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` percent of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


HEADINGS = ("name", "what", "fsync", "measured", "compared with", "ratio", "target", "holds")


def print_table(run: Run) -> None:
    lines = [_line(row) for row in run.rows]
    if sys.stdout.isatty():
        table = Table(*HEADINGS)
        for line, row in zip(lines, run.rows, strict=True):
            table.add_row(*line, style=None if row.holds else "yellow")
        Console().print(table)
        return
    widths = [max(len(line[i]) for line in [HEADINGS, *lines]) for i in range(len(HEADINGS))]
    for line in [HEADINGS, *lines]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _line(row: Row) -> tuple[str, ...]:
    base = "" if row.base_value is None else f"{row.base} {_number(row.base_value)}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    sign = "≤" if row.relation == "at most" else "≥"
    target = f"{sign} {row.target:.3g}" + (f" x {row.base}" if row.base else f" {row.unit}")
    holds = "yes" if row.holds else "no"
    return (row.name, row.what, row.fsync, f"{_number(row.value)} {row.unit}", base, ratio, target, holds)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def write_json(run: Run, file: Path) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
