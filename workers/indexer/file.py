"""The writer of an index: rows and checkpoints in one transaction, and the removal of text that left the log.

Rows are read from the file once, and written once for each step.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ledger.core.errors import InputError, SetupError
from ledger.core.regular_files import is_held, locked
from ledger.stores.port import START, Position
from projections.search_rows import (
    TEXT_CHARS,
    RequestBegun,
    RequestEnded,
    RequestReopened,
    RequestStatus,
    SearchChange,
    SearchTexts,
    SessionBegun,
)
from projections.search_rows import ContentGone as Gone
from workers.indexer.schema import TEXT_COLUMNS, TIME_BITS, VERSION_BITS, OpenIndex, fact_word, open_to_write

_TIME_MAX: Final = (1 << (63 - TIME_BITS)) - 1
_TEXTS: Final = (*TEXT_COLUMNS, "rules")
GONE: Final = "content redacted"
"""The call of a request whose content left the log."""


class IndexedRequest(msgspec.Struct, kw_only=True):
    """A request as the file has it, with its number (None: not written yet) and its texts."""

    id: int | None = None
    session: str
    request_id: str
    version: int
    asked_ms: int
    permission: str
    agent: str | None
    asker: str
    call: str
    outcome: RequestStatus
    reason: str
    answered_by: str | None = None
    reply: str | None = None
    ended_ms: int | None = None
    ended_version: int | None = None
    grants: tuple[str, ...] = ()
    redacted: bool = False
    texts: SearchTexts = SearchTexts()


REQUEST_COLUMNS: Final = tuple(name for name in IndexedRequest.__struct_fields__ if name != "texts")
_SELECT: Final = f"SELECT {', '.join(REQUEST_COLUMNS)} FROM requests"  # noqa: S608 - the names are ours
_SELECT_TEXTS: Final = f"SELECT {', '.join(_TEXTS)} FROM texts WHERE rowid = ?"  # noqa: S608 - as above
_INSERT: Final = (
    f"INSERT OR REPLACE INTO requests ({', '.join(REQUEST_COLUMNS)}) VALUES ({', '.join('?' * len(REQUEST_COLUMNS))})"  # noqa: S608 - as above
)
_INSERT_TEXTS: Final = f"INSERT INTO texts (rowid, {', '.join(_TEXTS)}, facts) VALUES (?{', ?' * (len(_TEXTS) + 1)})"  # noqa: S608 - as above


class SessionRows:
    """The rows of one session that a step changes."""

    def __init__(self, connection: sqlite3.Connection, session: str, begun: SessionBegun) -> None:
        self._connection = connection
        self._session = session
        self.begun = begun
        self._changed: dict[str, IndexedRequest] = {}

    def change(self, change: RequestBegun | RequestEnded | RequestReopened) -> None:
        """Apply a change; one that does not fit the row's outcome has no effect, as in the fold."""
        if isinstance(change, RequestBegun):
            self._changed[change.request_id] = _asked(self._session, change, self._row(change.request_id))
            return
        row = self._row(change.request_id)
        if row is None or (row.outcome == "pending") != isinstance(change, RequestEnded):
            return
        _settle(row, change)
        self._changed[change.request_id] = row

    def write(self) -> None:
        for row in self._changed.values():
            self._write(row)

    def _row(self, request_id: str) -> IndexedRequest | None:
        changed = self._changed.get(request_id)
        if changed is not None:
            return changed
        found = self._connection.execute(
            f"{_SELECT} WHERE session = ? AND request_id = ?", (self._session, request_id)
        ).fetchone()
        if found is None:
            return None
        texts = self._connection.execute(_SELECT_TEXTS, found[:1]).fetchone()
        return row_of(found, texts)

    def _write(self, row: IndexedRequest) -> None:
        if row.id is None:
            row.id = self._free_id(row)
        else:
            self._connection.execute("DELETE FROM texts WHERE rowid = ?", (row.id,))
        values = {name: getattr(row, name) for name in REQUEST_COLUMNS}
        values["grants"] = json.dumps(row.grants)
        self._connection.execute(_INSERT, tuple(values.values()))
        texts = [getattr(row.texts, name) for name in _TEXTS]
        self._connection.execute(_INSERT_TEXTS, (row.id, *texts, " ".join(self._facts(row))))

    def _free_id(self, row: IndexedRequest) -> int:
        """Return a free number of the millisecond of the ask."""
        name = f"{row.session}\n{row.request_id}".encode(errors="surrogatepass")
        # Requests of a session in one millisecond keep their order, those of several sessions have none.
        order = (row.version % (1 << VERSION_BITS)) << (TIME_BITS - VERSION_BITS)
        below = order + int.from_bytes(sha256(name).digest()[:4]) % (1 << (TIME_BITS - VERSION_BITS))
        number = (min(row.asked_ms, _TIME_MAX) << TIME_BITS) + below
        while self._connection.execute("SELECT 1 FROM requests WHERE id = ?", (number,)).fetchone():
            number += 1
        return number

    def _facts(self, row: IndexedRequest) -> Iterable[str]:
        begun = self.begun
        facts = [
            fact_word("session", row.session),
            fact_word("request", row.request_id),
            fact_word("permission", row.permission),
            fact_word("outcome", row.outcome),
            *(fact_word("agent", name) for name in (row.agent, begun.agent, row.asker) if name),
            *(fact_word("grant", one) for one in row.grants),
        ]
        if begun.project is not None:
            facts.append(fact_word("project", begun.project))
        if begun.token_id is not None:
            facts.append(fact_word("token", begun.token_id))
        if row.answered_by is not None:
            facts.append(fact_word("by", row.answered_by))
        return dict.fromkeys(facts)


def row_of(found: tuple[Any, ...], texts: tuple[str, ...] | None) -> IndexedRequest:
    """Return the row of `requests` and that of `texts`."""
    values = dict(zip(REQUEST_COLUMNS, found, strict=True))
    values["grants"] = tuple(json.loads(values["grants"]))
    values["redacted"] = bool(values["redacted"])
    words = SearchTexts() if texts is None else SearchTexts(**dict(zip(_TEXTS, texts, strict=True)))
    return IndexedRequest(**values, texts=words)


def _asked(session: str, change: RequestBegun, known: IndexedRequest | None) -> IndexedRequest:
    members = {name: value for name, value in msgspec.structs.asdict(change).items() if name != "status"}
    row = IndexedRequest(id=None if known is None else known.id, session=session, outcome=change.status, **members)
    if change.status != "pending":
        row.ended_ms, row.ended_version = change.asked_ms, change.version
    if change.redacted:
        _empty(row)
    return row


def _settle(row: IndexedRequest, change: RequestEnded | RequestReopened) -> None:
    """Put the new outcome into a row. A request loses all content with that of its ask, its end or a reopening."""
    row.outcome, row.reason = change.status, change.reason
    is_pending = change.status == "pending"
    row.ended_ms, row.ended_version = (None, None) if is_pending else (change.at_ms, change.version)
    row.answered_by, row.reply = None, None
    if isinstance(change, RequestEnded):
        row.answered_by, row.reply = change.by, change.reply
        row.grants = tuple(dict.fromkeys(one for one in (*row.grants, *change.grants) if one))
    if row.redacted or change.redacted:
        _empty(row)
    else:
        row.texts = SearchTexts(**{name: _both(row.texts, change.texts, name) for name in _TEXTS})


def _both(before: SearchTexts, more: SearchTexts, name: str) -> str:
    texts = dict.fromkeys(one for one in (getattr(before, name), getattr(more, name)) if one)
    return "\n".join(texts)[:TEXT_CHARS]


def _empty(row: IndexedRequest) -> None:
    row.redacted, row.call, row.reason, row.texts = True, GONE, "", SearchTexts()


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


class IndexFile(OpenIndex):
    """An index that this process alone writes; any number of others read it. Not for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Raise InputError for a file that is something else, or of another writer; SetupError."""
        self._stopping = self._scrubbing = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = locked(f"{path}.lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise SetupError(f"the index `{path}` cannot be written: {error}") from error
        if self._lock is None:
            raise InputError(f"another indexer writes `{path}`; one is enough, or name another file with --file")
        try:
            connection, is_new = open_to_write(path)
            super().__init__(path, connection, "written")
            if is_new:
                self.note({SCRUB: "1"})
        except BaseException:
            os.close(self._lock)
            raise

    @staticmethod
    def is_written(path: Path) -> bool:
        """Return whether another process writes an index."""
        lock = path.with_name(f"{path.name}.lock")
        return lock.exists() and is_held(lock)

    def close(self) -> None:
        super().close()
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
            with self._errors():
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
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

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
