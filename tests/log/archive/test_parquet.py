"""Rows in a Parquet file are read as they were written, whatever an agent or a person put into them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from ledger.core.limits import EVENT_BYTES
from ledger.log.archive.columns import COLUMN_TYPES, ArchiveRow
from ledger.log.archive.parquet import read_all_streams, read_stream, read_streams, write_parquet
from ledger.stores.port import Entry

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "",
        "null",
        '"',
        "\\",
        "\\u0000",
        "\x00",
        "\r\n",
        "{}",
        "[1]",
        "2026-11-27",
        "1e3",
        "\u2028",
        "'; DROP TABLE x; --",
    ]
)
NUMBERS = st.integers(0, 2**63 - 1)
ROWS = st.builds(
    ArchiveRow, *(NUMBERS if kind == "BIGINT" else TEXTS | st.none() for kind in COLUMN_TYPES.values())
)  # fmt: skip


def read_back(rows: list[ArchiveRow]) -> list[tuple[object, ...]]:
    """Return the rows of a file that was written with these."""
    with TemporaryDirectory(prefix="stream=it's ") as folder:
        path = Path(folder) / "new.parquet"
        write_parquet(path, rows)
        assert [one.name for one in Path(folder).iterdir()] == [path.name]
        with duckdb.connect() as database:
            return database.execute(
                "SELECT * FROM read_parquet($path, hive_partitioning = false)", {"path": str(path)}
            ).fetchall()


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(ROWS, max_size=30))
def test_any_text_and_number_is_read_as_it_was_written_and_in_order(rows: list[ArchiveRow]) -> None:
    assert read_back(rows) == [astuple(row) for row in rows]


def row(version: int, text: str) -> ArchiveRow:
    return ArchiveRow("session:ses_1", version, 1, "asked", None, None, None, None, text, None)


@pytest.mark.parametrize("sign", ['"', "\\", "ž", "\U0001f40e"])
def test_the_largest_event_is_read_as_it_was_written(sign: str) -> None:
    rows = [row(number, sign * (EVENT_BYTES // len(sign.encode()))) for number in range(1, 4)]
    assert read_back(rows) == [astuple(one) for one in rows]


def test_a_folder_that_is_named_like_a_column_changes_no_row(tmp_path: Path) -> None:
    path = tmp_path / "stream=x" / "version=7" / "new.parquet"
    path.parent.mkdir(parents=True)
    write_parquet(path, [row(1, "one"), row(2, "two")])
    own = [Entry(1, 1, b"one", None), Entry(1, 2, b"two", None)]
    assert list(read_all_streams(path)) == [("session:ses_1", own)]
    assert read_stream(path, "session:ses_1") == own
    assert read_stream(path, "x") == []


def test_more_rows_than_are_written_at_once_stay_in_order(tmp_path: Path) -> None:
    path = tmp_path / "new.parquet"
    write_parquet(path, [row(number, f"{number}") for number in range(1, 5_001)])
    ((name, entries),) = read_all_streams(path)
    assert name == "session:ses_1"
    assert [(one.version, one.payload) for one in entries] == [(number, b"%d" % number) for number in range(1, 5_001)]


def test_some_streams_of_a_file_are_read_in_one_query_and_a_missing_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "new.parquet"
    names = [f"session:{number:04}'\\ž" for number in range(1_000)]
    rows = [replace(row(version, name), stream=name) for name in names for version in range(1, 6)]
    write_parquet(path, rows)
    wanted = [names[999], "session:none", *names[3:300:7]]
    found = read_streams(path, wanted)
    assert found == {name: read_stream(path, name) for name in wanted if name != "session:none"}
    assert [len(entries) for entries in found.values()] == [5] * (len(wanted) - 1)
