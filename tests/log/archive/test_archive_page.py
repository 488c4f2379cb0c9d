"""The page of the archive's files: its columns are those of a file, and its queries run and give what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import duckdb
import pytest

from ledger.log.archive.buckets import FolderBucket
from ledger.log.archive.columns import COLUMN_TYPES
from ledger.log.archive.files import ArchiveFiles
from ledger.log.archive.manifests import ArchivedStream, Manifest
from ledger.log.archive.parquet import ROW_GROUP_COUNT
from tests.house.sources import text_of
from tests.support.archives import NOW_MS, lived

PAGE: Final = text_of("docs/reference/archive.md")
QUERIES: Final = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """An archive with two sessions, one of them in two files."""
    files = ArchiveFiles(FolderBucket(tmp_path / "archive"))
    await files.write(dict([lived("ses_1"), lived("ses_2")]), NOW_MS)
    await files.write(dict([lived("ses_1")]), NOW_MS + 1)
    return tmp_path


def answered(folder: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as database:
        return database.execute(query.replace("'archive/", f"'{folder}/archive/")).fetchall()


def test_the_columns_of_the_page_are_those_of_the_files() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE, re.MULTILINE))
    assert rows == COLUMN_TYPES
    assert f"row groups of {ROW_GROUP_COUNT:,}" in PAGE


def test_the_members_of_a_manifest_are_those_of_the_page() -> None:
    members = PAGE.split("\n## Manifest\n")[1]
    named = set(re.findall(r"`(\w+)`", members))
    assert {*Manifest.__struct_fields__, *ArchivedStream.__struct_fields__} <= named


def test_the_page_has_two_queries() -> None:
    assert len(QUERIES) == 2


def test_who_answered_how_often_is_told_once_for_each_session(folder: Path) -> None:
    assert answered(folder, QUERIES[0]) == [("ann", "allowed", 4)]


def test_what_people_were_asked_is_told_in_their_words(folder: Path) -> None:
    rows = answered(folder, QUERIES[1])
    assert {row[:2] for row in rows} == {(f"session:ses_{n}", f"per_{m}") for n in (1, 2) for m in (1, 2)}
    assert all("žluťoučký" in str(row[2]) for row in rows)
