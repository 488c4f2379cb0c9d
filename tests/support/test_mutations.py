"""The list of planted defects: a change of the source must not leave an entry without its place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scripts.mutations import listed

ROOT: Final = Path(__file__).resolve().parents[2]


def test_each_defect_has_its_place_and_tests_of_its_own() -> None:
    wrong = [f"two defects are `{one.id}`" for one in listed() if [two.id for two in listed()].count(one.id) > 1]
    for one in listed():
        count = (ROOT / one.file).read_text(encoding="utf-8").count(one.find)
        if count != 1 or one.find == one.replace:
            wrong.append(f"`{one.id}`: its text occurs {count} times in {one.file}, not once")
        wrong += [
            f"`{one.id}`: no tests in {folder}" for folder in one.tests if not any((ROOT / folder).glob("test_*.py"))
        ]
    assert not wrong, "\n".join(wrong)
