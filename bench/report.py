"""Results of a run: rows that are asked, figures of rounds, rows with their targets; as text, as JSON, as a table of the page."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

Fsync = Literal["everysec", "always"]
FSYNCS: tuple[Fsync, ...] = get_args(Fsync)
Relation = Literal["at most", "at least"]
SIGNS: Final[dict[Relation, str]] = {"at most": "≤", "at least": "≥"}

JSON_VERSION = 2
WARM_COUNT = 20


class Asked(NamedTuple):
    """A row before it is measured. With `base` the target limits the ratio to that figure, otherwise the value itself."""

    what: str
    fsync: Fsync
    figure: str
    unit: str
    base: str | None = None
    at_most: float | None = None
    at_least: float | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: medians of the rounds, and the least and the most of them."""

    name: str
    figure: str
    what: str
    fsync: Fsync
    value: float
    spread: tuple[float, float]
    unit: str
    base: str | None = None
    base_value: float | None = None
    ratio: float | None = None
    ratio_spread: tuple[float, float] | None = None
    relation: Relation
    target: float
    holds: bool


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the bench, or of `bench.growth`, in the form of `--json`."""

    version: int = JSON_VERSION
    quick: bool
    rounds: int
    server: str
    python: str = platform.python_version()
    processors: int = os.cpu_count() or 1
    rows: Sequence[Any]


class Rounds:
    """Figures by name, one a round. Ratios are taken within a round, so that a slow machine slows both sides."""

    def __init__(self) -> None:
        self._figures: dict[tuple[Fsync, str], list[float]] = defaultdict(list)

    def add(self, fsync: Fsync, figure: str, value: float) -> None:
        self._figures[fsync, figure].append(value)

    async def in_turn(
        self, fsync: Fsync, works: Mapping[str, Callable[[], Awaitable[float]]], count: int
    ) -> dict[str, float]:
        """Do each work in turn, which returns its seconds; add and return the median of each, in microseconds."""
        seconds: dict[str, list[float]] = defaultdict(list)
        for turn in range(WARM_COUNT + count):
            for figure, work in works.items():
                taken = await work()
                if turn >= WARM_COUNT:
                    seconds[figure].append(taken)
        medians = {figure: median(all_taken) * 1e6 for figure, all_taken in seconds.items()}
        for figure, value in medians.items():
            self.add(fsync, figure, value)
        return medians

    def row(self, name: str, asked: Asked) -> Row:
        values = self._figures[asked.fsync, asked.figure]
        bases = ratios = None
        if asked.base is not None:
            bases = self._figures[asked.fsync, asked.base]
            ratios = [value / base for value, base in zip(values, bases, strict=True)]
        judged = median(ratios or values)
        relation: Relation = "at least" if asked.at_most is None else "at most"
        target = asked.at_least if asked.at_most is None else asked.at_most
        assert target is not None, "a row has a target"
        return Row(
            name=name,
            figure=asked.figure,
            what=asked.what,
            fsync=asked.fsync,
            value=median(values),
            spread=(min(values), max(values)),
            unit=asked.unit,
            base=None if asked.base is None else "floor" if asked.base.startswith("floor") else asked.base,
            base_value=median(bases) if bases else None,
            ratio=judged if ratios else None,
            ratio_spread=(min(ratios), max(ratios)) if ratios else None,
            relation=relation,
            target=target,
            holds=holds(judged, relation, target),
        )


def holds(value: float, relation: Relation, target: float) -> bool:
    return value <= target if relation == "at most" else value >= target


async def timed(work: Callable[..., Awaitable[object]], *arguments: Any) -> float:
    """Return the seconds of a work."""
    began = time.perf_counter()
    await work(*arguments)
    return time.perf_counter() - began


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` percent of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


HEADINGS: Final = ("what", "appendfsync", "median", "compared with", "ratio", "target", "")


def cells(row: Row) -> tuple[str, ...]:
    base, ratio, target = "", "", f"{number(row.target)} {row.unit}"
    if row.base is not None and row.base_value is not None and row.ratio is not None:
        base, ratio = f"{row.base} {number(row.base_value)}", f"{number(row.ratio)} x" + spread(row.ratio_spread or ())
        target = f"{number(row.target)} x"
    value = f"{number(row.value)} {row.unit}".rstrip() + spread(row.spread)
    return (row.what, row.fsync, value, base, ratio, f"{SIGNS[row.relation]} {target}".rstrip(), verdict(row.holds))


def spread(values: Sequence[float]) -> str:
    """Return the least and the most, where they differ."""
    first, last = number(min(values)), number(max(values))
    return "" if first == last else f" ({first} to {last})"


def verdict(holds: bool | None) -> str:
    return {True: "met", False: "missed", None: ""}[holds]


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def print_lines(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Print columns of text."""
    table = [headings, *lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table of a page."""
    table = (headings, ["---"] * len(headings), *lines)
    return ["".join(f"| {cell} " if cell else "| " for cell in line) + "|" for line in table]


def write_json(run: Any, file: Path) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
