"""The comparison of two versions finds each of its rows in what a part tells, and runs both sides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import PROBES
from bench.versions import COUNTED, GROWTH, ROWS
from tests.costs.steps import NAMES, Cost
from tests.support.processes import ROOT
from tests.support.rows import none_of


def told_by(part: str) -> Any:
    """Return what a part tells, with one and the same figure everywhere."""
    if part in COUNTED:
        return {name: Cost(1, 1, 1, 1, 1, 1)._asdict() for name in NAMES}
    if part == GROWTH:
        return {"rows": [{"growth": 1.0, "targets": [{"of": "growth"}]}, {"growth": None, "targets": []}]}
    (probe,) = (kind for kind in PROBES if kind.name == part)
    return {
        "rows": [
            {
                "figure": one.figure,
                "base": "floor" if (one.base or "").startswith("floor") else one.base,
                "fsync": one.fsync,
                "value": 1,
                "ratio": 1,
            }
            for one in probe().asked()
        ]
    }


def test_each_row_is_found_in_what_its_part_tells() -> None:
    none_of(row.what for row in ROWS if row.value(told_by(row.part)) not in {1, 2})


@pytest.mark.slow
def test_both_sides_are_measured_and_a_row_that_one_cannot_do_has_the_reason(tmp_path: Path) -> None:
    for name in ("bench", "tests", "ledger", "projections", "workers", "permission_ledger.py", ".git"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "ledger").unlink()
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger/__init__.py").touch()
    file = tmp_path / "figures.json"
    words = ("--turns", "1", "--only", "reply", "--json", str(file))
    command = [sys.executable, "-m", "bench.versions", str(tmp_path), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heading, _, row = done.stdout.splitlines()
    assert heading.startswith("| what | old: ")
    assert row.startswith("| round trips of a reply | - | 1 | ≤ 1 | met; old: ")
    assert "cannot import name 'Ledger'" in row
    (figures,) = json.loads(file.read_text())["rows"]
    assert (figures["old"], figures["new"]) == ([], [1])
