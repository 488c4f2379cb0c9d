"""The bench runs, and writes the documented figures; their size is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.report import Asked, Rounds, cells, percentile
from tests.support.processes import ROOT

ROW_KEYS = {
    "name",
    "figure",
    "what",
    "fsync",
    "value",
    "spread",
    "unit",
    "base",
    "base_value",
    "ratio",
    "ratio_spread",
    "relation",
    "target",
    "holds",
}


@pytest.mark.slow
def test_a_quick_run_of_one_part_prints_its_table_and_writes_the_documented_keys(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "--quick", "--only", "lone", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["name", "what", "appendfsync", "median", "compared", "with", "ratio", "target"]
    assert [line.split()[0] for line in lines] == ["lone"] * 12

    run: dict[str, Any] = json.loads(file.read_text())
    assert set(run) == {"version", "quick", "rounds", "server", "python", "processors", "rows"}
    assert (run["version"], run["quick"], run["rounds"]) == (2, True, 2)
    assert [set(row) for row in run["rows"]] == [ROW_KEYS] * 12
    assert [(row["fsync"], row["base"], row["target"]) for row in run["rows"]] == [
        *(
            row
            for fsync, of_floor in (("everysec", 2.5), ("always", 1.6))
            for row in (
                (fsync, "script floor", 1.55),
                (fsync, "floor", of_floor),
                (fsync, "ask", 1.1),
                (fsync, "without masks", 1.15),
                (fsync, "ask", 3),
            )
        ),
        ("everysec", "script floor", 2.6),
        ("everysec", "script floor", 2.6),
    ]


def test_ratios_are_taken_within_a_round_so_that_a_slow_moment_slows_both() -> None:
    rounds = Rounds()
    for ours, floor in ((20.0, 10.0), (400.0, 100.0), (30.0, 10.0)):
        rounds.add("always", "ledger", ours)
        rounds.add("always", "floor", floor)
    row = rounds.row("lone", Asked("an ask", "always", "ledger", "us", "floor", at_most=2.5))
    assert (row.value, row.base_value, row.ratio, row.relation, row.holds) == (30.0, 10.0, 3.0, "at most", False)
    assert (row.spread, row.ratio_spread) == ((20.0, 400.0), (2.0, 4.0))
    assert cells(row)[2:5] == ("30 us (20 to 400)", "floor 10", "3 x (2 to 4)")


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 51), (99, 100), (100, 100)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert percentile([float(i) for i in range(100, 0, -1)], percent) == expected
