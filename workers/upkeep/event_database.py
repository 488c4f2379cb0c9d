"""A DuckDB database of events for one query: read only, and without any way to files, networks or settings.

Three walls stand before a query. It is parsed first, and refused unless it only selects, from tables and harmless
functions. The database can open no file but those of the archive. Its configuration is locked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import astuple

from ledger.core.errors import InputError
from ledger.log.archive.columns import COLUMN_TYPES, ArchiveRow
from ledger.log.archive.parquet import AS_IT_IS, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_LIMIT: Final = "512MB"
"""Rows that do not fit into memory are written to a folder of the command's own."""

QUERY_CHARS_MAX: Final = 100_000
ERROR_LINES_COUNT: Final = 6

NODES: Final = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
"""The parts of a query that only read. Others write: `WITH x AS (COPY …)` is a SELECT to its first words."""

TABLE_FUNCTIONS: Final = frozenset(("generate_series", "json_each", "json_tree", "range", "unnest"))
"""The functions in a FROM that read no file and run no other query."""

_SETTINGS: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": MEMORY_LIMIT,
    "threads": 2,
}

_COLUMNS: Final = ", ".join(COLUMN_TYPES)
_TYPED: Final = ", ".join(f'"{name}" {kind}' for name, kind in COLUMN_TYPES.items())
_UNNESTED: Final = ", ".join(f"unnest($c{index}::{kind}[])" for index, kind in enumerate(COLUMN_TYPES.values()))


RULE_TYPES: Final = {
    "digest": "VARCHAR",
    "dialect": "VARCHAR",
    "number": "BIGINT",
    "action": "VARCHAR",
    "permission": "VARCHAR",
    "pattern": "VARCHAR",
    "layer": "VARCHAR",
    "place": "VARCHAR",
}
"""The columns of the table `rules`, with their types in DuckDB."""

_RULES_TYPED: Final = ", ".join(f'"{name}" {kind}' for name, kind in RULE_TYPES.items())
_RULES_UNNESTED: Final = ", ".join(f"unnest($c{index}::{kind}[])" for index, kind in enumerate(RULE_TYPES.values()))


class RuleRow(NamedTuple):
    """One stored rule. `number` counts from 1 in the order of its ruleset; `place` is its file and line, if they are known."""

    digest: str
    dialect: str
    number: int
    action: str
    permission: str
    pattern: str
    layer: str | None
    place: str | None


class QueryRows(NamedTuple):
    """The result of a query: its columns, its first rows, and whether there are more."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    has_more: bool


class EventDatabase:
    """The events of a ledger as the view `events`, and its rules as the table `rules`. It is filled, then locked, then asked.

    Nothing is kept: the folder, which is the caller's, has the rows and whatever does not fit into memory.
    """

    def __init__(self, folder: Path) -> None:
        import duckdb  # noqa: PLC0415 - an extra

        self.folder = folder
        settings = {**_SETTINGS, "temp_directory": str(folder / "spilled")}
        self._database: DuckDBPyConnection = duckdb.connect(str(folder / "events.duckdb"), config=settings)
        self._database.execute(f"CREATE TABLE live_events ({_TYPED})")
        self._database.execute("CREATE TABLE sealed_streams (stream VARCHAR, path VARCHAR)")
        self._database.execute(f"CREATE TABLE rules ({_RULES_TYPED})")

    def add(self, rows: Sequence[ArchiveRow]) -> None:
        """Add events of streams on the server."""
        self._insert("live_events", _UNNESTED, [astuple(row) for row in rows])

    def add_rules(self, rows: Sequence[RuleRow]) -> None:
        """Add the rules of rulesets."""
        self._insert("rules", _RULES_UNNESTED, rows)

    def _insert(self, table: str, unnested: str, rows: Sequence[tuple[Any, ...]]) -> None:
        values = {f"c{index}": list(column) for index, column in enumerate(zip(*rows, strict=True))}
        if values:
            self._database.execute(f"INSERT INTO {table} SELECT {unnested}", values)

    def add_sealed(self, paths: Mapping[str, Path]) -> None:
        """Add sealed streams by name, each with the path of its file."""
        if paths:
            self._database.execute(
                "INSERT INTO sealed_streams SELECT unnest($names::VARCHAR[]), unnest($paths::VARCHAR[])",
                {"names": list(paths), "paths": [str(path) for path in paths.values()]},
            )

    def lock(self) -> None:
        """Make the view, and forbid everything but reading it."""
        run = self._database.execute
        # A session that was sealed while it was read is taken once.
        run("DELETE FROM sealed_streams WHERE stream IN (SELECT stream FROM live_events)")
        paths = [path for (path,) in run("SELECT DISTINCT path FROM sealed_streams ORDER BY path").fetchall()]
        view = f"SELECT {_COLUMNS} FROM live_events"  # noqa: S608 - names of our own
        if paths:
            listed = ", ".join(map(quoted, paths))
            run(f"SET allowed_paths = [{listed}]")
            view += (
                f" UNION ALL SELECT {_COLUMNS} FROM read_parquet([{listed}], filename = true, {AS_IT_IS}) AS archived "  # noqa: S608 - quoted
                "WHERE (stream, filename) IN (SELECT stream, path FROM sealed_streams)"
            )
        run(f"CREATE VIEW events AS {view}")
        run("SET enable_external_access = false")
        run("SET lock_configuration = true")

    def ask(self, query: str, count: int | None) -> QueryRows:
        """Return the first `count` rows of a query, None for all. Raises InputError in the words of the query."""
        import duckdb  # noqa: PLC0415 - an extra

        self._require_reading(query)
        try:
            found = self._database.execute(query)
            columns = tuple(str(one[0]) for one in found.description or ())
            rows = found.fetchall() if count is None else found.fetchmany(count + 1)
        except (duckdb.Error, RuntimeError) as error:
            raise InputError(_told(str(error))) from error
        has_more = count is not None and len(rows) > count
        return QueryRows(columns, rows[:count], has_more)

    def interrupt(self) -> None:
        """End the query that runs in another thread."""
        self._database.interrupt()

    def close(self) -> None:
        self._database.close()

    def _require_reading(self, query: str) -> None:
        import duckdb  # noqa: PLC0415 - an extra

        if len(query) > QUERY_CHARS_MAX:
            raise InputError(f"the query has {len(query)} characters; at most {QUERY_CHARS_MAX} are accepted")
        try:
            (text,) = self._database.execute("SELECT json_serialize_sql($1::VARCHAR)", [query]).fetchone() or ("{}",)
            parsed = json.loads(text)
        except (duckdb.Error, RuntimeError, RecursionError) as error:
            raise InputError("the query cannot be parsed; is it nested too deeply?") from error
        if parsed.get("error_type") == "not implemented":
            raise InputError(
                f"`sql` reads only: `{query.split(maxsplit=1)[0][:40]}` is no SELECT, and nothing else runs"
            )
        if parsed.get("error") is not False:
            raise InputError(_told(str(parsed.get("error_message", "it cannot be parsed"))))
        if len(parsed.get("statements", ())) != 1:
            raise InputError("give one query: `sql` runs exactly one SELECT")
        for node in _nodes(parsed["statements"]):
            kind = node.get("type")
            if isinstance(kind, str) and kind.endswith("_NODE") and kind not in NODES:
                word = kind.removesuffix("_NODE").removesuffix("_QUERY")
                raise InputError(f"`sql` reads only: the query has {word} in it, and nothing but SELECT is possible")
            if kind == "TABLE_FUNCTION":
                name = str((node.get("function") or {}).get("function_name", ""))
                if name.lower() not in TABLE_FUNCTIONS:
                    raise InputError(f"`{name}` is not available: select from `events` or `rules`; files are not read")


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Iterate over all objects of a parsed query; not recursive, because a query may be nested deeply."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)


def _told(text: str) -> str:
    """Return the error of a query, with the line that it points to."""
    return "the query cannot be run: " + "\n".join(text.strip().splitlines()[:ERROR_LINES_COUNT])
