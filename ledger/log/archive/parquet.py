"""Parquet files of entries, written and read by DuckDB: compressed with zstd, sorted by stream and version."""

from __future__ import annotations

import atexit
import errno
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ledger.core.errors import DamageError
from ledger.log.archive.columns import COLUMN_TYPES, ArchiveRow, entry_of
from ledger.stores.port import Entry

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROW_GROUP_COUNT: Final = 2048
"""Rows of a row group, the fewest that DuckDB writes: about 200 kB compressed, so that reading a session is cheap."""

WRITTEN_AT_ONCE_COUNT: Final = 1_000
FETCHED_AT_ONCE_COUNT: Final = 10_000

SETTINGS: Final[dict[str, Any]] = {
    "threads": 1,
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "true",
    "enable_external_file_cache": "false",
}
"""Nothing is downloaded, no file stays in memory, and a process that reads a session takes no more than one core."""

AS_IT_IS: Final = "hive_partitioning = false"
"""DuckDB would take a folder named `stream=x` for the column `stream` of each row."""

_FILE: Final = f"read_parquet($path, {AS_IT_IS})"
_COLUMNS: Final = ", ".join(f'"{name}": {kind}' for name, kind in COLUMN_TYPES.items())

_lines = msgspec.json.Encoder()


def write_parquet(path: Path, rows: Sequence[ArchiveRow]) -> None:
    """Write a file of these rows, which are sorted by stream and version. Raises OSError."""
    try:
        _write(path, rows)
    except _duckdb().Error as error:
        raise OSError(errno.EIO, str(error).splitlines()[0][:200]) from error


def _write(path: Path, rows: Sequence[ArchiveRow]) -> None:
    # DuckDB reads lines of JSON three times as fast as it takes lists from Python.
    lines = path.with_suffix(".ndjson")
    with lines.open("wb") as file:
        for start in range(0, len(rows), WRITTEN_AT_ONCE_COUNT):
            file.write(_lines.encode_lines(rows[start : start + WRITTEN_AT_ONCE_COUNT]))
    with _database().cursor() as database:
        database.execute(
            f"COPY (FROM read_json({_quoted(lines)}, {AS_IT_IS}, format = 'newline_delimited', columns = {{{_COLUMNS}}})) "
            f"TO {_quoted(path)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP_COUNT})"
        )
    lines.unlink()


def _quoted(path: Path | str) -> str:
    """Return a path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def read_stream(path: Path, name: str) -> list[Entry]:
    """Return the entries of one stream of a file, in order. Raises DamageError for a file that cannot be read."""
    query = f"SELECT ms, version, d, x FROM {_FILE} WHERE stream = $stream ORDER BY version"  # noqa: S608 - a constant
    return [entry_of(*row) for row in _fetched(query, {"path": str(path), "stream": name})]


def read_streams(path: Path, names: Sequence[str]) -> dict[str, list[Entry]]:
    """Return the entries of some streams of a file, in order. Raises DamageError for a file that cannot be read.

    Thirty-two neighbours take half as long again as one stream.
    """
    wanted = {f"s{number}": name for number, name in enumerate(names)}
    query = (
        f"SELECT stream, ms, version, d, x FROM {_FILE} "  # noqa: S608 - a constant, and names of parameters
        f"WHERE stream IN ({', '.join(f'${one}' for one in wanted)}) ORDER BY stream, version"
    )
    rows = _fetched(query, {"path": str(path), **wanted})
    return {name: [entry_of(*row[1:]) for row in some] for name, some in groupby(rows, key=lambda row: row[0])}


def read_all_streams(path: Path) -> Iterator[tuple[str, list[Entry]]]:
    """Iterate over all streams of a file, as they stand in it. Raises DamageError for a file that cannot be read."""
    rows = _fetched(f"SELECT stream, ms, version, d, x FROM {_FILE}", {"path": str(path)})  # noqa: S608 - a constant
    for name, some in groupby(rows, key=lambda row: row[0]):
        yield name, [entry_of(*row[1:]) for row in some]


def _fetched(query: str, values: dict[str, Any]) -> Iterator[Any]:
    try:
        with _database().cursor() as database:
            database.execute(query, values)
            while page := database.fetchmany(FETCHED_AT_ONCE_COUNT):
                yield from page
    except _duckdb().Error as error:
        reason = str(error).splitlines()[0].replace(values["path"], "it")[:200]
        raise DamageError(f"is not a file of the archive that can be read: {reason}") from error


@cache
def _duckdb() -> Any:
    """Return DuckDB without the queries in Python that its package also has: these take 40 ms of a short command."""
    try:
        return import_module("_duckdb")
    except ImportError:
        return import_module("duckdb")  # an extra


@lru_cache(1)
def _database() -> DuckDBPyConnection:
    """Return the process's database, which is in memory; each use has a cursor of its own."""
    database: DuckDBPyConnection = _duckdb().connect(":memory:", config=SETTINGS)
    # At the end of the process its modules are gone before the cache is.
    atexit.register(_close_database)
    return database


def _close_database() -> None:
    _database().close()
    _database.cache_clear()
