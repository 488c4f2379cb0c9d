"""Searches of an index, by any number of processes beside the one that writes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledger.core.errors import SetupError
from ledger.core.times import format_time, format_time_or_none
from workers.indexer.facts import FactKind
from workers.indexer.file import DEPLOYMENT, SCRUB, WHOLE
from workers.indexer.query import SearchQuery
from workers.indexer.rows import REQUEST_COLUMNS, IndexedRequest, row_of
from workers.indexer.schema import open_to_read

EXAMINED_COUNT: Final = 1000
"""Matches examined for one answer where the caller may not see all; the cursor continues after them."""

AT_ONCE_COUNT: Final = 200


class FoundRequest(NamedTuple):
    """A request that matches, with the facts of its session that decide who may see it."""

    request: IndexedRequest
    project: str | None
    token_id: str | None

    def as_json(self) -> dict[str, Any]:
        """Return CONTRACT-like members; `session` and `version` are the moment of the decision, or of the ask."""
        one = self.request
        return {
            "request_id": one.request_id,
            "session": one.session,
            "version": one.ended_version or one.version,
            "project": self.project,
            "agent": one.agent or one.asker,
            "permission": one.permission,
            "call": one.call,
            "outcome": one.outcome,
            "reason": one.reason,
            "by": one.answered_by,
            "reply": one.reply,
            "asked_at": format_time(one.asked_ms),
            "asked_version": one.version,
            "ended_at": format_time_or_none(one.ended_ms),
            "grants": list(one.grants),
            "redacted": one.redacted,
        }


class FoundPage(NamedTuple):
    """Requests, the newest first; `cursor` continues after them, None at the end."""

    found: list[FoundRequest]
    cursor: str | None


class IndexReader:
    """An open index. Not for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Raise SetupError where there is no index that can be read, InputError for a file that is none."""
        self.path = path
        self._connection = open_to_read(path)

    def close(self) -> None:
        self._connection.close()

    @property
    def deployment(self) -> str:
        return self._noted(DEPLOYMENT)

    @property
    def is_whole(self) -> bool:
        """Return whether all streams were walked over since the index was begun, or had fallen behind the feeds."""
        return bool(self._noted(WHOLE))

    @property
    def owes_removal(self) -> bool:
        """Return whether the file may have bytes of text that left the log; no search finds it."""
        return bool(self._noted(SCRUB))

    def feeds(self) -> dict[int, str]:
        with self._told():
            return dict(self._connection.execute("SELECT partition, after FROM feeds").fetchall())

    def versions(self, sessions: Sequence[str]) -> dict[str, int]:
        """Return the versions that sessions are indexed up to."""
        found: dict[str, int] = {}
        with self._told():
            for session in sessions:
                row = self._connection.execute("SELECT version FROM heads WHERE session = ?", (session,)).fetchone()
                found[session] = 0 if row is None else row[0]
        return found

    def search(
        self,
        query: SearchQuery,
        limit: int,
        *,
        may_see: Callable[[FoundRequest], bool] = lambda _: True,
        scope: tuple[tuple[FactKind, str], ...] = (),
    ) -> FoundPage:
        """Return one page of what the caller may see; one of `scope` holds for all of it.

        A page may be short, or empty, with a cursor, where the caller may see few of the matches.
        """
        page: list[FoundRequest] = []
        examined, last = 0, query.before
        least, below = query.numbers()
        while examined < EXAMINED_COUNT:
            count = max(limit + 1 - len(page), AT_ONCE_COUNT if examined else 0)
            rows = self._rows(query.match(scope), least, below, count)
            for row in rows:
                if may_see(row):
                    if len(page) == limit:
                        return FoundPage(page, str(last))
                    page.append(row)
                below = last = row.request.id or 0
            if len(rows) < count:
                return FoundPage(page, None)
            examined += len(rows)
        return FoundPage(page, str(last))

    def _rows(self, match: str | None, least: int, below: int, count: int) -> list[FoundRequest]:
        if match is None:
            sql, values = _NEWEST, (least, below, count)
        else:
            sql, values = _MATCHING, (match, least, below, count)  # type: ignore[assignment]
        with self._told():
            rows = self._connection.execute(sql, values).fetchall()
        return [FoundRequest(row_of(row[:-2], None), *row[-2:]) for row in rows]

    def _noted(self, name: str) -> str:
        with self._told():
            found = self._connection.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return "" if found is None else str(found[0])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise SetupError(f"the index `{self.path}` cannot be read: {error}") from error


_COLUMNS: Final = ", ".join(f"requests.{name}" for name in REQUEST_COLUMNS)
_NEWEST: Final = (
    f"SELECT {_COLUMNS}, heads.project, heads.token_id FROM requests JOIN heads USING (session)"  # noqa: S608 - ours
    " WHERE requests.id >= ? AND requests.id < ? ORDER BY requests.id DESC LIMIT ?"
)
_MATCHING: Final = (
    f"SELECT {_COLUMNS}, heads.project, heads.token_id"  # noqa: S608 - the names are ours
    " FROM (SELECT rowid AS number FROM texts WHERE texts MATCH ? AND rowid >= ? AND rowid < ?"
    " ORDER BY rowid DESC LIMIT ?)"
    " CROSS JOIN requests ON requests.id = number CROSS JOIN heads USING (session) ORDER BY number DESC"
)
