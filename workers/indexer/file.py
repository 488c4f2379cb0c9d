"""The writer of an index: rows and checkpoints in one transaction, and the removal of text that left the log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from ledger.core.errors import InputError, SetupError
from ledger.core.regular_files import locked
from ledger.stores.port import START, Position
from projections.search_rows import ContentGone as Gone
from projections.search_rows import SearchChange, SessionBegun
from workers.indexer.rows import SessionRows
from workers.indexer.schema import open_to_write

NOBODY: Final = SessionBegun(project=None, agent=None, token_id=None)

DEPLOYMENT: Final = "deployment"
WALK: Final = "walk"
WHOLE: Final = "whole"
SCRUB: Final = "scrub"


class IndexedHead(NamedTuple):
    """The entry that a session's rows are as of, and the version as of which its content was read."""

    at: Position
    clean: int


NO_HEAD: Final = IndexedHead(START, 0)


class SessionStep(NamedTuple):
    """Changes of a session up to an entry. `anew`: the rows made before are dropped first."""

    session: str
    anew: bool
    changes: Sequence[SearchChange]
    head: IndexedHead


class IndexFile:
    """An index that this process alone writes; any number of others read it. Not for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Raise InputError for a file that is something else, or of another writer; SetupError."""
        self.path = path
        self._stopping = self._scrubbing = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = locked(f"{path}.lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise SetupError(f"the index `{path}` cannot be written: {error}") from error
        if self._lock is None:
            raise InputError(f"another indexer writes `{path}`; one is enough, or name another file with --file")
        try:
            self._connection, is_new = open_to_write(path)
            if is_new:
                self.note({SCRUB: "1"})
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def stop(self) -> None:
        """Let `scrub` in another thread end early; the next start goes on with it."""
        self._stopping = True
        if self._scrubbing:
            self._connection.interrupt()

    # --- reads --------------------------------------------------------------------------------------------------------

    def head(self, session: str) -> IndexedHead:
        found = self._connection.execute(
            "SELECT ms, version, clean FROM heads WHERE session = ?", (session,)
        ).fetchone()
        return NO_HEAD if found is None else IndexedHead(Position(found[0], found[1]), found[2])

    def sessions(self, after: str, count: int) -> list[str]:
        """Return the next sessions of the index, by name."""
        rows = self._connection.execute(
            "SELECT session FROM heads WHERE session > ? ORDER BY session LIMIT ?", (after, count)
        )
        return [session for (session,) in rows]

    def feeds(self) -> dict[int, str]:
        """Return the line of each partition's feed up to which all was read."""
        return dict(self._connection.execute("SELECT partition, after FROM feeds").fetchall())

    def noted(self, name: str) -> str:
        found = self._connection.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return "" if found is None else str(found[0])

    # --- writes -------------------------------------------------------------------------------------------------------

    def apply(self, steps: Sequence[SessionStep]) -> None:
        """Write the changes of some sessions and their checkpoints, all or none."""
        with self._transaction():
            for step in steps:
                if step.anew:
                    self._drop(step.session)
                if step.head != NO_HEAD:
                    self._apply(step)

    def note(self, notes: Mapping[str, str], feeds: Mapping[int, str] | None = None) -> None:
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO notes (name, value) VALUES (?, ?)", notes.items())
            self._connection.executemany(
                "INSERT OR REPLACE INTO feeds (partition, after) VALUES (?, ?)", (feeds or {}).items()
            )

    def scrub(self) -> bool:
        """Write the file anew without the text of dropped rows, where it owes that; return whether it is done.

        A deletion leaves words in the segments of the full-text table, and may leave bytes in pages that were divided.
        The log of the database (WAL) is emptied last, which waits for readers: False while one is in the way.
        """
        if not self.noted(SCRUB):
            return True
        self._scrubbing = True
        try:
            with self._told():
                return self._scrub()
        finally:
            self._scrubbing = False

    def _scrub(self) -> bool:
        if self.noted(SCRUB) == "1":
            for statement in ("INSERT INTO texts (texts) VALUES ('rebuild')", "VACUUM"):
                if self._stopping:
                    return False
                self._connection.execute(statement)
            self.note({SCRUB: "2"})
        busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy:
            with self._transaction():
                self._connection.execute("DELETE FROM notes WHERE name = ?", (SCRUB,))
        return not busy

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise SetupError for an error of the database: a full disk, say. Nothing was written then."""
        try:
            yield
        except sqlite3.Error as error:
            raise SetupError(f"the index `{self.path}` cannot be written: {error}") from error

    def _apply(self, step: SessionStep) -> None:
        rows = SessionRows(self._connection, step.session, self._begun(step.session))
        for change in step.changes:
            if isinstance(change, SessionBegun):
                rows.begun = change
            elif not isinstance(change, Gone):
                rows.change(change)
        rows.write()
        at, begun = step.head.at, rows.begun
        self._connection.execute(
            "INSERT OR REPLACE INTO heads (session, ms, version, clean, project, agent, token_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (step.session, at.ms, at.version, step.head.clean, begun.project, begun.agent, begun.token_id),
        )

    def _begun(self, session: str) -> SessionBegun:
        found = self._connection.execute(
            "SELECT project, agent, token_id FROM heads WHERE session = ?", (session,)
        ).fetchone()
        return NOBODY if found is None else SessionBegun(project=found[0], agent=found[1], token_id=found[2])

    def _drop(self, session: str) -> None:
        """Remove a session's rows, and note that their text is still in the file."""
        self._connection.execute(
            "DELETE FROM texts WHERE rowid IN (SELECT id FROM requests WHERE session = ?)", (session,)
        )
        self._connection.execute("DELETE FROM requests WHERE session = ?", (session,))
        self._connection.execute("DELETE FROM heads WHERE session = ?", (session,))
        self._connection.execute("INSERT OR REPLACE INTO notes (name, value) VALUES (?, '1')", (SCRUB,))
