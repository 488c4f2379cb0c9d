"""The file of an index: an SQLite database with a full-text table (FTS5), in WAL mode.

A request's number (`requests.id`) begins with the time of its ask, so that the order of numbers is the order of time and
the newest matches are read first. `texts` has the same numbers. `heads` has the entry that each session's rows are as
of; it changes in the same transaction as the rows.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from ledger.core.errors import InputError, SetupError
from ledger.stores.urls import default_home

FactKind = Literal["by", "project", "agent", "permission", "session", "grant", "outcome", "token", "request"]

DIGITS: Final = 16
"""Hex digits of a digest: 64 bits, so that two facts of an index never meet."""


def fact_word(kind: FactKind, value: str) -> str:
    """Return the word of a fact; upper and lower case are the same."""
    return "f" + sha256(f"{kind}\n{value.casefold()}".encode(errors="surrogatepass")).hexdigest()[:DIGITS]


def has_letters(text: str) -> bool:
    """Return whether the index has a word for a text: others have nothing to look up."""
    return any(one.isalnum() for one in text)


APPLICATION: Final = 0x504C5831
"""The mark of our files (`PRAGMA application_id`)."""

FORMAT: Final = 1
"""The number of this layout (`PRAGMA user_version`); a file with another one is built anew."""

TIME_BITS: Final = 21
"""Bits of a request's number below the milliseconds of its ask."""

VERSION_BITS: Final = 11
"""Those of them that are of the version of the ask."""

FILE_VARIABLE: Final = "PERMISSION_LEDGER_SEARCH"

BUSY_MS: Final = 5000

TEXT_COLUMNS: Final = ("command", "paths", "input", "feedback")
"""The columns that plain words are searched in."""


class NoIndexError(SetupError):
    """There is no index that this version can search; an indexer makes one."""

    code = "NO_INDEX"


class Marks(NamedTuple):
    """The marks of a file and its tables, as of one moment."""

    application: int
    version: int
    tables: list[str]

    @property
    def is_current(self) -> bool:
        return self.application == APPLICATION and self.version == FORMAT

    @property
    def is_foreign(self) -> bool:
        """Return whether the file is another program's: it has tables and not our mark, or another mark."""
        return self.application != APPLICATION and bool(self.tables or self.application)


_SCHEMA: Final = """
CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE feeds (partition INTEGER PRIMARY KEY, after TEXT NOT NULL);
CREATE TABLE heads (
  session TEXT PRIMARY KEY, ms INTEGER NOT NULL, version INTEGER NOT NULL, clean INTEGER NOT NULL,
  project TEXT, agent TEXT, token_id TEXT
) WITHOUT ROWID;
CREATE TABLE requests (
  id INTEGER PRIMARY KEY, session TEXT NOT NULL, request_id TEXT NOT NULL, version INTEGER NOT NULL,
  asked_ms INTEGER NOT NULL, permission TEXT NOT NULL, agent TEXT, asker TEXT NOT NULL, call TEXT NOT NULL,
  outcome TEXT NOT NULL, reason TEXT NOT NULL, answered_by TEXT, reply TEXT, ended_ms INTEGER, ended_version INTEGER,
  grants TEXT NOT NULL, redacted INTEGER NOT NULL
);
CREATE UNIQUE INDEX requests_of_sessions ON requests (session, request_id);
CREATE VIRTUAL TABLE texts USING fts5 (
  command, paths, input, feedback, rules, facts, tokenize = "unicode61", prefix = "2 3", columnsize = 0
);
"""


def default_file(deployment: str) -> Path:
    """Return the index that commands use: `PERMISSION_LEDGER_SEARCH`, else one of this deployment in the data folder."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named) if named else default_home() / f"search-{deployment[:12]}.sqlite"


def open_to_write(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Open an index, made if it is missing, and anew if it has another format; return whether it is empty now.

    Raises InputError for a file that is something else, SetupError where it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # SQLite gives its other files the mode of this one, which has the agents' commands.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
    except (OSError, sqlite3.Error) as error:
        raise SetupError(f"the index `{path}` cannot be written: {error}") from error
    try:
        return connection, _prepare(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise SetupError(f"the index `{path}` cannot be written: {error}") from error
        if isinstance(error, sqlite3.DatabaseError):
            raise _not_ours(path) from error
        raise


def _prepare(connection: sqlite3.Connection, path: Path) -> bool:
    if _marks(connection).is_foreign:
        raise _not_ours(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")
    if _marks(connection).is_current:
        return False
    connection.execute("BEGIN IMMEDIATE")
    marks = _marks_now(connection)  # again, under the lock: another indexer may have made the index meanwhile
    if marks.is_foreign or marks.is_current:
        connection.execute("ROLLBACK")
        if marks.is_foreign:
            raise _not_ours(path)
        return False
    for name in sorted(marks.tables, key=lambda one: one != "texts"):
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
    return True


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open an index for searches. Raises NoIndexError where there is none of this format, SetupError, InputError."""
    if not path.exists():
        raise NoIndexError(f"there is no index `{path}`; start `permission-ledger worker indexer --file {path}`")
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_MS / 1000,
        )
        try:
            marks = _marks(connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise SetupError(f"the index `{path}` cannot be read: {error}") from error
    except sqlite3.DatabaseError as error:
        raise _not_ours(path) from error
    if not marks.is_current:
        connection.close()
        if marks.is_foreign:
            raise _not_ours(path)
        if marks.application != APPLICATION:
            raise NoIndexError(f"the index `{path}` is empty; start `permission-ledger worker indexer --file {path}`")
        raise NoIndexError(
            f"the index `{path}` has format {marks.version}, this version reads {FORMAT}; "
            "start `permission-ledger worker indexer` of this version, which builds it anew"
        )
    return connection


def _not_ours(path: Path) -> InputError:
    return InputError(f"`{path}` is not an index of requests; name another file, or remove it")


def _marks(connection: sqlite3.Connection) -> Marks:
    """Return the marks in one read transaction: between two, another process may make the index."""
    connection.execute("BEGIN")
    try:
        return _marks_now(connection)
    finally:
        connection.execute("ROLLBACK")


def _marks_now(connection: sqlite3.Connection) -> Marks:
    application, version = _number(connection, "application_id"), _number(connection, "user_version")
    return Marks(application, version, _tables(connection))


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    with closing(connection.execute(f"PRAGMA {pragma}")) as found:
        return int(found.fetchone()[0])


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Return the tables that may be dropped: SQLite drops those of a virtual table with it."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return [name for (name,) in rows]


class OpenIndex:
    """An open index and its notes. Not for several threads at once."""

    def __init__(self, path: Path, connection: sqlite3.Connection, use: Literal["read", "written"]) -> None:
        self.path = path
        self._connection = connection
        self._use = use

    def close(self) -> None:
        self._connection.close()

    def feeds(self) -> dict[int, str]:
        """Return the line of each partition's feed up to which all was read."""
        with self._errors():
            return dict(self._connection.execute("SELECT partition, after FROM feeds").fetchall())

    def noted(self, name: str) -> str:
        with self._errors():
            found = self._connection.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return "" if found is None else str(found[0])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise SetupError for an error of the database: a full disk, say. Nothing was written then."""
        try:
            yield
        except sqlite3.Error as error:
            raise SetupError(f"the index `{self.path}` cannot be {self._use}: {error}") from error
