"""Results: figures at several sizes, how each row grows, and its targets; as text and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Final, Literal, NamedTuple

import msgspec

from bench.report import SIGNS, Relation, holds, number, verdict

Sizes = tuple[int, ...]
Judged = Literal["growth", "last"]


class Aim(NamedTuple):
    """A target: for the growth from the first size to the last, or for the value at the last."""

    of: Judged
    relation: Relation
    limit: float


class Asked(NamedTuple):
    """A row of the table before it is measured; `by` is what grows."""

    what: str
    by: str
    unit: str
    aims: tuple[Aim, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A target of a row; `holds` is None where it was not measured at two sizes."""

    of: Judged
    relation: Relation
    target: float
    holds: bool | None


class SizedValue(msgspec.Struct, frozen=True):
    """The value of a row at one size: the median of its repetitions."""

    at: int
    value: float


class GrowthRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. `growth` is the last value against the first; None with one size."""

    name: str
    what: str
    by: str
    unit: str
    values: list[SizedValue]
    growth: float | None
    targets: list[Verdict]


class Figures:
    """Figures by row and size."""

    def __init__(self) -> None:
        self._values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, name: str, at: int, *values: float) -> None:
        self._values[name][at] += values

    def rows(self, asked: Iterable[tuple[str, Asked]]) -> list[GrowthRow]:
        """Return a row for each question. Raises KeyError for one that was not measured."""
        return [self._row(name, one) for name, one in asked]

    def _row(self, name: str, asked: Asked) -> GrowthRow:
        if name not in self._values:
            raise KeyError(f"row `{name}` was not measured")
        values = [SizedValue(at, median(found)) for at, found in sorted(self._values[name].items())]
        first, last = values[0].value, values[-1].value
        growth = last / first if len(values) > 1 and first else None
        return GrowthRow(
            name=name,
            what=asked.what,
            by=asked.by,
            unit=asked.unit,
            values=values,
            growth=growth,
            targets=[_judged(aim, growth, last) for aim in asked.aims],
        )


def _judged(aim: Aim, growth: float | None, last: float) -> Verdict:
    value = growth if aim.of == "growth" else last
    held = None if value is None else holds(value, aim.relation, aim.limit)
    return Verdict(of=aim.of, relation=aim.relation, target=aim.limit, holds=held)


HEADINGS: Final = ("what", "by", "measured", "growth", "target", "")


def cells(row: GrowthRow) -> tuple[str, ...]:
    measured = ", ".join(f"{one.at:,}: {number(one.value)}" if row.by else number(one.value) for one in row.values)
    growth = "" if row.growth is None else f"{row.growth:.2f} x"
    targets = ", ".join(_target(one, row.unit) for one in row.targets)
    known = [one.holds for one in row.targets if one.holds is not None]
    judged = verdict(all(known) if known else None)
    return (row.what, row.by, f"{measured} {row.unit}".rstrip(), growth, targets, judged)


def _target(one: Verdict, unit: str) -> str:
    return f"{SIGNS[one.relation]} {number(one.target)} " + ("x" if one.of == "growth" else unit)
