"""`sql` runs queries that people paste: they reach no file, no network, no setting, and change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ledger.core.errors import InputError
from ledger.log.archive.buckets import FolderBucket
from ledger.log.archive.columns import rows_of
from ledger.log.archive.files import ArchiveFiles
from tests.support.archives import NOW_MS, lived
from workers.upkeep.event_database import EventDatabase

LIVE, SEALED = lived("ses_live"), lived("ses_sealed")


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the archive with one session."""
    folder = tmp_path_factory.mktemp("archive") / "stream=x"  # named like a column
    manifest = asyncio.run(ArchiveFiles(FolderBucket(folder)).write(dict([SEALED]), NOW_MS))
    return folder / manifest.file


@pytest.fixture(scope="module")
def database(archived: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventDatabase]:
    """One database for all: no query may change anything in it."""
    database = EventDatabase(tmp_path_factory.mktemp("own"))
    database.add(list(rows_of(*LIVE)))
    database.add_sealed({SEALED[0].name: archived})
    database.lock()
    yield database
    database.close()


QUERIES: Final = (
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM read_parquet('{archived}/../../../../../../other.parquet')",
    "SELECT * FROM 'https://example.com/events.parquet'",
    "SELECT * FROM 's3://bucket/events.parquet'",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM json_execute_serialized_sql('x')",
    "SELECT * FROM duckdb_secrets()",
    "COPY (SELECT 1) TO '{target}'",
    "COPY events TO '{archived}' (FORMAT parquet, USE_TMP_FILE false)",
    "WITH x AS (COPY (SELECT 1) TO '{target}') SELECT 1",
    "WITH x AS (COPY (SELECT 1) TO '{archived}' (FORMAT parquet, USE_TMP_FILE false)) SELECT 1",
    "SELECT * FROM (WITH x AS (COPY (SELECT 1) TO '{archived}' (USE_TMP_FILE false)) SELECT 1)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}'",
    "EXPORT DATABASE '{target}'",
    "ATTACH '{target}'",
    "ATTACH ':memory:' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "INSTALL '/tmp/x.duckdb_extension'",
    "SET enable_external_access = true",
    "SET allowed_paths = ['/etc/passwd']",
    "RESET lock_configuration",
    "PRAGMA enable_external_access",
    "CALL pragma_version()",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW events",
    "DELETE FROM live_events",
    "WITH x AS (DELETE FROM live_events RETURNING *) SELECT * FROM x",
    "WITH x AS (INSERT INTO live_events SELECT * FROM live_events RETURNING 1) SELECT * FROM x",
    "CREATE SECRET x (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "PREPARE x AS SELECT 1",
    "BEGIN",
    "CHECKPOINT",
    "SELECT 1; COPY (SELECT 1) TO '{target}'",
    "SELECT 1; SELECT 2",
    "",
    "-- nothing",
    "SELEC 1",
    "SELECT 1" + " + 1" * 30_000,
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT '" + "x" * 100_000 + "'",
)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:50].replace("/", ":"))
def test_a_query_that_does_more_than_read_events_is_refused(
    database: EventDatabase, archived: Path, tmp_path: Path, query: str
) -> None:
    before, target = archived.read_bytes(), tmp_path / "target"
    with pytest.raises(InputError):
        database.ask(query.format(archived=archived, target=target), 10)
    assert archived.read_bytes() == before
    assert not target.exists()
    assert database.ask("SELECT count(*) FROM events", 1).rows == [(len(LIVE[1]) + len(SEALED[1]),)]


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO '{target}'",
        "COPY (SELECT 1) TO '{target}' (USE_TMP_FILE false)",
        "ATTACH '{target}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM read_text('/etc/passwd')",
    ],
)
def test_the_database_itself_refuses_what_the_parser_would_let_through(
    database: EventDatabase, tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventDatabase, "_require_reading", lambda *_: None)
    with pytest.raises(InputError, match=r"disabled|locked|Cannot"):
        database.ask(query.format(target=tmp_path / "target"), 10)
    assert not (tmp_path / "target").exists()


def test_an_error_is_told_in_the_words_of_the_query(database: EventDatabase) -> None:
    with pytest.raises(InputError, match=r"(?s)persn.*LINE 1: SELECT persn FROM events"):
        database.ask("SELECT persn FROM events", 10)
    with pytest.raises(InputError, match="COPY"):
        database.ask("WITH x AS (COPY (SELECT 1) TO '/tmp/x') SELECT 1", 10)


@pytest.mark.parametrize(
    "query",
    [
        "FROM events",
        "DESCRIBE events",
        "SUMMARIZE events",
        "SELECT stream, count(*) FROM events GROUP BY ALL ORDER BY ALL",
        "WITH a AS (SELECT * FROM events) SELECT person FROM a UNION ALL SELECT outcome FROM a",
        "WITH RECURSIVE t AS (SELECT 1 n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t, range(3)",
        "SELECT stream, lag(ms) OVER (PARTITION BY stream ORDER BY version) FROM events QUALIFY version > 1",
        "SELECT x->'$.patterns', json_extract_string(d, '$.event.type') FROM events",
        "SELECT e.key FROM events, json_each(d) AS e",
        "SELECT unnest([1, 2]), make_timestamp(ms * 1000) FROM events",
    ],
)
def test_queries_of_analysts_run(database: EventDatabase, query: str) -> None:
    assert database.ask(query, 1000).rows
