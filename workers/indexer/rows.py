"""Rows of an index as events change them: read from the file once, and written once for each step."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import msgspec

from projections.search_rows import (
    TEXT_CHARS,
    RequestBegun,
    RequestEnded,
    RequestReopened,
    RequestStatus,
    SearchTexts,
    SessionBegun,
)
from workers.indexer.facts import fact_word
from workers.indexer.schema import TEXT_COLUMNS, TIME_BITS, VERSION_BITS

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
    row = IndexedRequest(
        id=None if known is None else known.id,
        session=session,
        request_id=change.request_id,
        version=change.version,
        asked_ms=change.asked_ms,
        permission=change.permission,
        agent=change.agent,
        asker=change.asker,
        call=change.call,
        outcome=change.status,
        reason=change.reason,
        grants=change.grants,
        texts=change.texts,
    )
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
