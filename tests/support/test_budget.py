"""`scripts/budget.py`: a part of the source does not grow beyond its budget unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import budget


def tree(folder: Path, most: int) -> Path:
    (folder / "ledger" / "core").mkdir(parents=True)
    (folder / "ledger" / "core" / "ids.py").write_text("ONE = 1\nTWO = 2\n")
    (folder / "budget.toml").write_text(f'[[part]]\nfolder = "ledger/core"\nlines = {most}\n')
    return folder


def test_a_part_within_its_budget_passes(tmp_path: Path) -> None:
    assert budget.main([], tree(tmp_path, 2)) == 0


def test_a_part_with_a_line_too_many_fails_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert budget.main([], tree(tmp_path, 1)) == 1
    assert "ledger/core: 2 lines; its budget is 1" in capsys.readouterr().err


def test_a_file_of_no_part_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree(tmp_path, 2) / "ledger" / "new.py").write_text("")
    assert budget.main([], tmp_path) == 1
    assert "ledger/new.py: no part" in capsys.readouterr().err
