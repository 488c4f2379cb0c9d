"""Tables at a terminal: short ids, relative times, at most six columns, and no broken word while there is room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.times import format_time
from workers.cli.output import CommandOutput
from workers.cli.tables import At, IdCell, Styled, Wide, short_ids

NOW_MS = 1_800_000_000_000
COLUMNS = ("effect", "request", "session", Wide("what would run"), "asked", "expires")
LONG = "bash `docker run --rm -it -v /home/dev/shop:/work -w /work node:20 npm run build -- --mode production`"
FIRST, SECOND = "per_22850fdc5000DapVBdsRPXgGi5", "per_22850fff80004Sa0s2Z62TL2X8"


def rows() -> list[Sequence[object]]:
    asked, expires = At(format_time(NOW_MS - 4000)), At(format_time(NOW_MS + 6 * 86_400_000))
    return [
        (
            Styled("no-undo", "bold red"),
            IdCell(FIRST),
            IdCell("0197c3aa-4d1e-7c93-a83e-2cb2e5a1f001"),
            LONG,
            asked,
            expires,
        ),
        (Styled("reads", "green"), IdCell(SECOND), IdCell("ses_1"), "bash `git push [red]origin`", asked, "never"),
    ]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    return Shown(monkeypatch, capsys)


class Shown:
    """A table as a terminal of some width shows it, or a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, width: int | None, *, utc: bool = False) -> list[str]:
        if width is not None:
            self._monkeypatch.setattr("sys.stdout.isatty", lambda: True)
            self._monkeypatch.setenv("COLUMNS", str(width))
            self._monkeypatch.setenv("TERM", "xterm-256color")
        CommandOutput(utc=utc, now_ms=lambda: NOW_MS).table(COLUMNS, rows())
        text = re.sub(r"\x1b\[[0-9;]*m", "", self._capsys.readouterr().out)
        return [line.rstrip() for line in text.splitlines()]


def test_at_120_columns_no_id_and_no_word_is_broken(shown: Shown) -> None:
    lines = shown(120)
    assert lines[0].split() == ["effect", "request", "session", "what", "would", "run", "asked", "expires"]
    assert lines[1].startswith("no-undo  per_22850fdc  0197c3aa-4d1  bash `docker run --rm")
    assert lines[1].endswith("4s ago  in 6d")
    assert all(len(line) <= 120 for line in lines)
    words = " ".join(lines).split()
    assert [word for word in LONG.split() if word not in words] == []


def test_at_80_columns_the_text_stands_below_its_row(shown: Shown) -> None:
    lines = shown(80)
    assert lines[0].split() == ["effect", "request", "session", "asked", "expires"]
    assert lines[1].split() == ["no-undo", "per_22850fdc", "0197c3aa-4d1", "4s", "ago", "in", "6d"]
    assert lines[2].startswith("  bash `docker run --rm")
    assert all(len(line) <= 80 for line in lines)
    assert " ".join(" ".join(lines[2:4]).split()) == LONG
    assert lines[5] == "  bash `git push [red]origin`", "square brackets are no markup"


def test_a_file_gets_whole_ids_and_whole_times_on_one_line_each(shown: Shown) -> None:
    lines = shown(None)
    assert len(lines) == 3
    assert all(
        one in lines[1] for one in (FIRST, "0197c3aa-4d1e-7c93-a83e-2cb2e5a1f001", LONG, format_time(NOW_MS - 4000))
    )
    assert lines == shown(None), "and the same again"


def test_with_utc_a_terminal_gets_whole_times(shown: Shown) -> None:
    assert format_time(NOW_MS - 4000) in " ".join(shown(160, utc=True))


@given(st.sets(st.text("ab1", min_size=1, max_size=20), min_size=1, max_size=8), st.sets(st.text("ab1", min_size=1)))
def test_a_short_id_begins_no_other_id(ids: set[str], others: set[str]) -> None:
    for whole, short in short_ids(ids, others).items():
        assert whole.startswith(short)
        assert short == whole or not [one for one in (ids | others) - {whole} if one.startswith(short)]
        assert len(short) >= min(12, len(whole))


def test_no_table_of_a_command_has_more_than_six_columns_or_a_header_in_capitals() -> None:
    folder = Path(import_module("workers.cli").__path__[0])
    tables = {
        (file.stem, name): value
        for file in folder.glob("*.py")
        if file.stem != "__main__"
        for name, value in vars(import_module(f"workers.cli.{file.stem}")).items()
        if name.endswith("COLUMNS")
    }
    assert len(tables) > 10
    assert {
        place: one for place, one in tables.items() if len(one) > 6 or any(name != name.lower() for name in one)
    } == {}
