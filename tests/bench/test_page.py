"""The page of speed has what runs have kept, and each row that the bench makes."""

from __future__ import annotations

import re

from bench.__main__ import PROBES
from bench.growth.questions import PARTS, TABLES
from bench.page import TEMPLATE, kept, page, places
from tests.support.processes import ROOT
from tests.support.rows import none_of

PARTS_OF_BENCH = {kind.name: kind for kind in PROBES}
GROWTH = {f"growth {part}": part for part in PARTS}
OTHERS = ("soak", "cluster")


def rows_of(part: str) -> list[list[str]]:
    """Return the cells of a kept table, without its heading."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in kept()[part].table[2:]]


def test_the_page_is_the_one_that_the_bench_writes() -> None:
    """`python -m bench.page > docs/contributing/speed.md` writes it."""
    assert (ROOT / "docs/contributing/speed.md").read_text() == page()


def test_the_fixed_words_have_a_place_for_each_table_and_no_table_of_their_own() -> None:
    template = TEMPLATE.read_text()
    assert set(places(template)) == set(kept())
    none_of(line for line in template.splitlines() if line.startswith("|"))


def test_every_table_is_made_by_a_part_and_each_part_of_the_bench_has_one() -> None:
    """A part that was measured in several ways has a table for each: its name, a comma, and which."""
    made = {name.partition(",")[0] for name in kept()}
    assert PARTS_OF_BENCH.keys() <= made <= {*PARTS_OF_BENCH, *GROWTH, *OTHERS}


def test_the_page_has_the_rows_that_the_bench_makes() -> None:
    none_of(
        f"{name}: {row}"
        for name, kind in PARTS_OF_BENCH.items()
        for row in {(one.what, one.fsync) for one in kind().asked()} ^ {(row[0], row[1]) for row in rows_of(name)}
    )


def test_the_page_has_no_row_of_growth_that_the_bench_does_not_make() -> None:
    """A view that is no more leaves the page with the next run."""
    none_of(
        f"{name}: {row[0]}"
        for name in kept()
        if (part := GROWTH.get(name.partition(",")[0])) is not None
        for row in rows_of(name)
        if (row[0], row[1]) not in {(one.what, one.by) for one in TABLES[part].values()}
    )


def test_every_table_names_its_command_its_commit_its_day_and_its_machine() -> None:
    none_of(
        f"{name}: {table}"
        for name, table in kept().items()
        if not re.fullmatch(r"python -m bench(\.\w+)? --.+", table.command)
        or not re.fullmatch(r"[0-9a-f]{8}( with changes)?", table.commit)
        or not re.fullmatch(r"\d{4}-\d\d-\d\d", table.date)
        or "Python 3" not in table.machine
    )
