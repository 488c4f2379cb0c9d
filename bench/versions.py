"""`python -m bench.versions FOLDER`: this version beside another one, in turn on one machine, row by row.

FOLDER is a checkout of the other version; it needs no set-up. The programs of this checkout measure both sides: each runs in a tree
that has the ledger of one version and the bench of this one, but for the floor, which calls that version's own append script, and
what its tests share. What a version cannot do shows as `-`, with the reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import click

from bench.page import commit_of
from bench.place import ROOT
from bench.report import SIGNS, Relation, holds, markdown, number, spread, verdict, write_json
from ledger.stores.embedded import embedded_server

TURNS: Final = 3
ROUNDS: Final = 2
"""Rounds of the bench in one turn."""

THE_VERSIONS: Final = ("ledger", "projections", "workers", "permission_ledger.py")
GROWTH: Final = "growth"
SCRIPT: Final = "script floor"

Found = Any
"""The JSON that a program printed or wrote."""


class Compared(NamedTuple):
    """A row: the part that measures it, how its value is found in what the part tells, and its limit."""

    what: str
    part: str
    value: Callable[[Found], float]
    asked: float
    unit: str = "x"
    relation: Relation = "at most"


def counted(step: str, *members: str) -> Callable[[Found], float]:
    """Return a reader of `tests.costs.steps`: the sum of some members of a step's cost."""
    return lambda found: float(sum(found[step][member] for member in members))


def ratio(figure: str, base: str, fsync: str = "everysec") -> Callable[[Found], float]:
    """Return a reader of `--json` of the bench."""
    return lambda found: next(
        float(row["ratio"])
        for row in found["rows"]
        if (row["figure"], row["base"], row["fsync"]) == (figure, base, fsync)
    )


def slowest(figure: str) -> Callable[[Found], float]:
    """Return a reader of the largest value among figures that end alike."""
    return lambda found: max(float(row["value"]) for row in found["rows"] if row["figure"].endswith(figure))


def largest_growth(found: Found) -> float:
    return max(float(row["growth"]) for row in found["rows"] if any(one["of"] == "growth" for one in row["targets"]))


CALLS: Final = ("python", "c")
ROWS: Final = (
    Compared("allowed ask: Python calls", "allowed_ask", counted("allowed_ask", "python"), 190, ""),
    Compared("… C calls", "allowed_ask", counted("allowed_ask", "c"), 140, ""),
    Compared("submit, reply, wait: Python calls", "whole_trip", counted("whole_trip", "python"), 450, ""),
    Compared("… C calls", "whole_trip", counted("whole_trip", "c"), 320, ""),
    Compared("round trips of a pending ask", "pending_ask", counted("pending_ask", "trips"), 1, ""),
    Compared("round trips of a reply", "reply", counted("reply", "trips"), 1, ""),
    Compared("expiry of one request: calls", "expiry", counted("expiry", *CALLS), 700, ""),
    Compared("`GET /v1/pending` with one row: calls", "http_pending", counted("http_pending", *CALLS), 1500, ""),
    Compared("server's processor time of an ask", "script", slowest("ledger"), 33, "us"),
    Compared("trip, 1 waiting, against the floor", "trips", ratio("ledger 1", "floor"), 2.5),
    Compared("… appendfsync always", "trips", ratio("ledger 1", "floor", "always"), 1.9),
    Compared("64 waiting, against the floor", "trips", ratio("ledger 64", "floor"), 1 / 9, "x", "at least"),
    Compared("1,000 waiting, p99, against the floor", "trips", ratio("ledger crowd", "floor"), 8),
    Compared("64 appends at once, of the script's floor", "concurrent", ratio("ledger", SCRIPT), 0.4, "x", "at least"),
    Compared("lone ask against the script's floor", "lone", ratio("ledger", SCRIPT), 1.55),
    Compared("a command never seen before, against it", "lone", ratio("new", SCRIPT), 2.6),
    Compared("rebuild, long sessions, of XRANGE", "rebuild", ratio("ledger", "floor"), 1 / 9, "x", "at least"),
    Compared("opening a session in a new process", "starts", slowest("opened"), 8, "ms"),
    Compared("… first command judged", "starts", slowest("judged"), 6, "ms"),
    Compared("whole process: `ask`, against its libraries", "starts", ratio("ask", "libraries"), 1.7),
    Compared("… `pending`", "starts", ratio("pending", "libraries"), 1.6),
    Compared("a bridge's answer by rule, p95, the slowest", "bridges", slowest(" p95"), 3, "ms"),
    Compared("growth, 5,000 to 50,000 sessions, the largest", GROWTH, largest_growth, 1.6),
)
PARTS: Final = tuple(dict.fromkeys(row.part for row in ROWS))
COUNTED: Final = PARTS[: PARTS.index("script")]
"""The steps of `tests.costs.steps`; the other parts are those of the bench."""


def make_tree(tree: Path, version: Path) -> None:
    """Link the ledger of a version, and copy the programs that measure it."""
    tree.mkdir()
    for name in THE_VERSIONS:
        (tree / name).symlink_to(version / name)
    shutil.copytree(version / "tests", tree / "tests", ignore=shutil.ignore_patterns("data", "__pycache__"))
    for name in ("bench", "tests/costs"):
        shutil.copytree(ROOT / name, tree / name, dirs_exist_ok=True)
    for root, name in (
        (version, "bench/floor.py"),
        *((ROOT, f"tests/gateway/{one}.py") for one in ("callers", "in_process")),
    ):
        shutil.copy(root / name, tree / name)


class Side:
    """One version, and what its parts told; a part that failed is not tried again."""

    def __init__(self, trees: Path, name: str, version: Path) -> None:
        self._tree = trees / name
        make_tree(self._tree, version)
        self.name = name
        self.commit = commit_of(version)
        self.found: dict[str, list[Found]] = defaultdict(list)
        self.reasons: dict[str, str] = {}

    def values(self, row: Compared) -> list[float]:
        """Return a value for each turn, none where this side cannot be measured."""
        return [row.value(found) for found in self.found[row.part]]

    def measure(self, part: str, *, quick: bool) -> None:
        if part in self.reasons:
            return
        with tempfile.TemporaryDirectory(prefix="pl-") as folder:
            try:
                self.found[part].append(self._told(part, Path(folder), quick=quick))
            except subprocess.CalledProcessError as error:
                self.reasons[part] = (error.stderr.strip().splitlines() or ["no reason given"])[-1]

    def _told(self, part: str, folder: Path, *, quick: bool) -> Found:
        file = folder / "figures.json"
        options = ("--json", str(file), *["--quick"] * quick)
        if part in COUNTED:
            with embedded_server(folder) as server:
                return json.loads(self._printed("tests.costs.steps", server.url, part))
        if part == GROWTH:
            sizes = () if quick else ("--sizes", "5000,50000")
            self._printed("bench.growth", "--only", "history", *sizes, *options)
        else:
            self._printed("bench", "--only", part, "--rounds", str(ROUNDS), *options)
        return json.loads(file.read_bytes())

    def _printed(self, *words: str) -> str:
        """Run a program of this side. Raises CalledProcessError."""
        command, none = (sys.executable, "-m", *words), subprocess.DEVNULL
        return subprocess.run(command, cwd=self._tree, stdin=none, capture_output=True, text=True, check=True).stdout


def cells(row: Compared, sides: Sequence[Side]) -> tuple[str, ...]:
    columns = [side.values(row) for side in sides]
    told = [f"{number(median(one))} {row.unit}".rstrip() + spread(one) if one else "-" for one in columns]
    asked = f"{SIGNS[row.relation]} {number(row.asked)} {row.unit}".rstrip()
    reasons = [f"{side.name}: {side.reasons[row.part]}" for side in sides if row.part in side.reasons]
    return (row.what, *told, asked, "; ".join([verdict(is_met(row, sides[-1])), *reasons]))


def is_met(row: Compared, side: Side) -> bool | None:
    values = side.values(row)
    return holds(median(values), row.relation, row.asked) if values else None


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="Only this part (default: all but growth).")
@click.option(
    "--turns", type=click.IntRange(1, 100), default=TURNS, show_default=True, help="Of each part; growth has one."
)
@click.option("--quick", is_flag=True, help="Smaller numbers: shows that each row can be measured, and no more.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file, too.")
def main(*, folder: Path, only: tuple[str, ...], turns: int, quick: bool, file: Path | None) -> None:
    """Compare this version with that of another checkout. The exit code is 1 where this one misses what is asked."""
    parts = only or [part for part in PARTS if part != GROWTH]
    rows = [row for row in ROWS if row.part in parts]
    with tempfile.TemporaryDirectory(prefix="pl-versions-") as trees:
        sides = [Side(Path(trees), name, version) for name, version in (("old", folder.resolve()), ("new", ROOT))]
        for turn in range(turns):
            for part in parts:
                for side in sides:
                    if part != GROWTH or turn == 0:
                        print(f"turn {turn + 1} of {turns}: {part}, {side.name}", file=sys.stderr, flush=True)
                        side.measure(part, quick=quick)
    headings = ("what", *(f"{side.name}: {side.commit}" for side in sides), "asked", "")
    print(*markdown(headings, [cells(row, sides) for row in rows]), sep="\n")
    if file is not None:
        values = [{"what": row.what, "unit": row.unit, **{one.name: one.values(row) for one in sides}} for row in rows]
        write_json({**{one.name: one.commit for one in sides}, "turns": turns, "quick": quick, "rows": values}, file)
    sys.exit(0 if all(is_met(row, sides[-1]) for row in rows) else 1)


if __name__ == "__main__":
    main()
