"""The pages that locate each section of the specifications, and each rule: nothing missing, nothing stale.

The specifications are not part of the project; their headings are, in `tests/data/spec-headings.json`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.command_line import ROOT
from tests.support.rows import every

SPECS_PAGE: Final = (ROOT / "docs/contributing/specs.md").read_text(encoding="utf-8")
RULES_PAGE: Final = (ROOT / "docs/contributing/rules-of-the-ledger.md").read_text(encoding="utf-8")
HEADINGS: Final = json.loads((ROOT / "tests/data/spec-headings.json").read_text(encoding="utf-8"))
DIFFERS: Final = "[differs](#where-we-differ): "

NOTHING: Final = "nothing to implement"
TEST: Final = "`tests/"


class Row(NamedTuple):
    """One line of a list: its page and section, its name, its words, and the modules and tests behind it."""

    page: str
    section: str
    name: str
    words: str
    items: list[str]

    @property
    def modules(self) -> list[str]:
        return [item for item in self.items if item.startswith("`") and not item.startswith(TEST)]

    @property
    def planned(self) -> list[str]:
        return [item for item in self.items if item.startswith("planned: ")]

    @property
    def tests(self) -> list[str]:
        return [item.strip("`") for item in self.items if item.startswith(TEST)]


def rows(page: str, text: str) -> Iterator[Row]:
    """Return all lines of lists that end with modules and tests, each behind a `<br>`."""
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("- ") and "<br>" in line:
            words, *items = line.removeprefix("- ").split("<br>")
            named = re.match(r"\*\*(.+?)\*\*: ", words)
            yield Row(page, section, named[1] if named else words, words, items)


SPECS: Final = list(rows("specs.md", SPECS_PAGE))
RULES: Final = list(rows("rules-of-the-ledger.md", RULES_PAGE))
EVERY: Final = [*SPECS, *RULES]


def named(row: Row) -> str:
    return f"{row.section}: {row.name}"


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the tests of a file as pytest names them, without parameters."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    in_classes = {
        f"{node.name}::{name}" for node in body if isinstance(node, ast.ClassDef) for name in _functions(node.body)
    }
    return frozenset(in_classes.union(_functions(body)))


def _functions(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


@cache
def parameter_texts() -> str:
    """Return the text of all tables from which tests take their parameters."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests/data").rglob("*.json")))


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    name, _, parameter = name.partition("[")
    # A scenario's own name comes last, after the store that it runs on.
    own = parameter.removesuffix("]").removeprefix("memory-")
    return (ROOT / path).is_file() and name in functions_of(ROOT / path) and own in parameter_texts()


@pytest.mark.parametrize("spec", HEADINGS)
def test_every_heading_of_a_specification_is_listed_once_in_its_order(spec: str) -> None:
    assert [row.name for row in SPECS if row.section == spec] == HEADINGS[spec]["headings"]
    assert f"*{HEADINGS[spec]['title']}*" in SPECS_PAGE


def test_no_list_is_of_anything_but_the_five_specifications() -> None:
    assert list(dict.fromkeys(row.section for row in SPECS)) == list(HEADINGS)
    assert len(HEADINGS) == 5


def test_both_pages_have_rows() -> None:
    assert len(SPECS) == sum(len(spec["headings"]) for spec in HEADINGS.values())
    assert len(RULES) > 50


@every("row", EVERY, ids=named)
def test_a_row_says_where_it_is_kept_and_by_what(row: Row) -> None:
    assert row.words
    tests = [f"`{test}`" for test in row.tests]
    assert [item for item in row.items if item not in [*row.modules, *row.planned, *tests, NOTHING]] == []
    assert (row.items == [NOTHING]) == (not row.modules and not row.planned)
    assert bool(row.tests) == bool(row.modules), "what is implemented is held by a test, and nothing else is"


def test_every_named_module_exists() -> None:
    modules = {module.strip("`") for row in EVERY for module in row.modules}
    assert sorted(module for module in modules if not (ROOT / module).is_file()) == []


def test_every_named_test_exists() -> None:
    tests = {test for row in EVERY for test in row.tests}
    assert sorted(test for test in tests if not exists(test)) == []


def test_planned_work_is_explained_and_awaited() -> None:
    explained = set(re.findall(r"^\| (planned: [^|]+) \|", SPECS_PAGE, flags=re.MULTILINE))
    assert {planned for row in EVERY for planned in row.planned} == explained


@pytest.mark.parametrize("spec", HEADINGS)
def test_every_specification_that_we_differ_from_has_a_row_that_says_so(spec: str) -> None:
    deviations = (ROOT / "docs/contributing/specs.md").read_text(encoding="utf-8")
    differing = [row for row in SPECS if row.section == spec and DIFFERS in row.words]
    assert bool(differing) == (f"- `{spec}`" in deviations)
