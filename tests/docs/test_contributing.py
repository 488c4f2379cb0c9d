"""CONTRIBUTING.md names folders, files, names and targets that exist, and its map has every folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.house.sources import PACKAGES, ROOT, text_of
from tests.support.rows import every

PAGE: Final = text_of("CONTRIBUTING.md")
PATHS: Final = sorted(set(re.findall(r"`((?:ledger|projections|workers|tests|docs)/[\w/.-]*)`", PAGE)))
NAMED: Final = re.findall(r"`(\w+)`,? (?:of|in) `([\w/]+\.py)`", PAGE)


@every("path", [path for path in PATHS if "NAME" not in path])
def test_every_path_of_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("name", "file"), NAMED)
def test_a_name_stands_in_the_file_that_the_page_says(name: str, file: str) -> None:
    assert re.search(rf"\b{name}\b", text_of(file))


def test_the_page_names_enough_to_start_with() -> None:
    assert len(PATHS) > 50
    assert len(NAMED) > 8


def test_the_map_has_every_folder() -> None:
    chart = PAGE.split("\n## The map\n")[1].split("\n## ")[0]
    folders = {
        f"{path.relative_to(ROOT)}/"
        for package in ("ledger", "workers")
        for path in Path(ROOT / package).iterdir()
        if path.is_dir() and any(one.suffix not in ("", ".pyc") for one in path.rglob("*"))
    }
    assert folders - set(re.findall(r"`([\w/]+/)`", chart)) == set()
    assert all(package in chart for package in PACKAGES)


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", PAGE, re.MULTILINE)) <= targets


def test_the_five_questions_are_answered_by_files() -> None:
    rows = [line for line in PAGE.split("\n## Five questions\n")[1].splitlines()[2:] if line.startswith("|")]
    assert len(rows) == 5
    assert [row for row in rows if not re.search(r"`(ledger|workers)/", row)] == []


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)", PAGE))))
def test_every_link_of_the_page_leads_to_a_file(link: str) -> None:
    assert (ROOT / link).exists()
