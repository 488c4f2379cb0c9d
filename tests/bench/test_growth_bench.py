"""The bench of growth measures every row at each of its sizes, and judges them; their size is not tested."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.growth.filling import OWN_NOTES, fill, filled_count
from bench.growth.lives import EVENTS_COUNT, session_of
from bench.growth.questions import TABLES, Part
from bench.growth.rows import HEADINGS, Aim, Asked, Figures, cells
from bench.growth.year import SEALED_NOTE, server_folder
from bench.place import place_at
from bench.report import print_lines
from ledger import Ledger
from ledger.stores.embedded import embedded_server
from tests.support.processes import ROOT

GROWTH_KEYS = {"name", "what", "by", "unit", "values", "growth", "targets"}


def run_growth(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.growth", "--quick", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "sizes"),
    [
        ("history", [20, 40]),
        ("year", [20, 40]),
        ("crowds", None),
        ("costs", [20]),
    ],
)
def test_a_quick_run_measures_every_row_of_a_part_at_each_size(
    part: Part, sizes: list[int] | None, tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    done = run_growth("--only", part, "--json", str(file))
    assert done.returncode == 0, done.stderr
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["what", "by", "measured", "growth", "target"]
    assert len(lines) == len(TABLES[part])

    run: dict[str, Any] = json.loads(file.read_text())
    assert set(run) == {"version", "quick", "rounds", "server", "python", "processors", "rows"}
    assert [row["name"] for row in run["rows"]] == list(TABLES[part])
    for row in run["rows"]:
        assert set(row) == GROWTH_KEYS
        assert sizes is None or [one["at"] for one in row["values"]] == sizes, row


@pytest.mark.slow
async def test_a_ledger_is_filled_on_from_what_it_holds(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server, place_at(server.url, quick=True) as place:
        for sessions, held in ((20, 20), (30, 30), (25, 30)):
            await fill(place, sessions, pending=4, jobs=2)
            assert await filled_count(place.ledger.store) == held
        states = [await (await place.ledger.attach(session_of(number))).state() for number in range(30)]
        assert {state.version for state in states} == {EVENTS_COUNT}
        assert [bool(state.pending) for state in states] == [True] * 4 + [False] * 26
        assert len([key async for key in place.ledger.sessions()]) == 30


async def test_a_folder_that_holds_more_than_is_asked_for_is_refused(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server, Ledger.connect(server.url) as ledger:
        await ledger.store.note(OWN_NOTES, "sessions", b"30")
    done = await asyncio.to_thread(run_growth, "--only", "history", "--folder", str(tmp_path))
    assert done.returncode == 2
    assert "the folder has 30 sessions already; give larger sizes" in done.stderr


async def test_a_year_that_is_sealed_already_is_refused(tmp_path: Path) -> None:
    folder = server_folder(tmp_path, 20)
    folder.mkdir()
    async with embedded_server(folder) as server, Ledger.connect(server.url) as ledger:
        await ledger.store.note(OWN_NOTES, SEALED_NOTE, b"1")
    done = await asyncio.to_thread(run_growth, "--only", "year", "--folder", str(tmp_path))
    assert done.returncode == 2
    assert f"most of the year in `{folder}` is sealed already; remove that folder" in " ".join(done.stderr.split())


def row_of(*aims: Aim, values: dict[int, list[float]]) -> Any:
    figures = Figures()
    for at, found in values.items():
        figures.add("ask", at, *found)
    (row,) = figures.rows([("ask", Asked("an ask", "sessions", "ms", aims))])
    return row


def test_a_row_grows_from_its_smallest_size_to_its_largest_by_medians() -> None:
    row = row_of(Aim("growth", "at most", 1.5), values={1000: [9.0, 4.0, 1.0], 10: [2.0, 2.0, 8.0]})
    assert [(one.at, one.value) for one in row.values] == [(10, 2.0), (1000, 4.0)]
    assert (row.growth, row.targets[0].holds) == (2.0, False)


def test_growth_is_not_judged_where_there_is_one_size() -> None:
    row = row_of(Aim("growth", "at most", 1.5), Aim("last", "at least", 3), values={10: [4.0]})
    assert (row.growth, [one.holds for one in row.targets]) == (None, [None, True])


def test_the_table_says_met_or_missed_beside_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    met = row_of(Aim("growth", "at most", 1.5), values={10: [4.0], 100: [5.0]})
    missed = row_of(Aim("growth", "at most", 1.5), Aim("last", "at most", 100), values={10: [4.0], 100: [120.0]})
    print_lines(HEADINGS, map(cells, [met, missed, row_of(values={10: [4.0]})]))
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    shown = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert shown[1:] == [
        ["an ask", "sessions", "10: 4, 100: 5 ms", "1.25 x", "≤ 1.5 x", "met"],
        ["an ask", "sessions", "10: 4, 100: 120 ms", "30.00 x", "≤ 1.5 x, ≤ 100 ms", "missed"],
        ["an ask", "sessions", "10: 4 ms"],
    ]


def test_a_row_that_was_not_measured_is_an_error() -> None:
    with pytest.raises(KeyError, match="row `ask` was not measured"):
        Figures().rows([("ask", Asked("an ask", "sessions", "ms"))])
