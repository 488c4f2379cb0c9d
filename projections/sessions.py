"""Views of sessions: `latest` and `latest-within` (by last event), `outcomes` (counts), and their summaries.

The summary of a session is held beside its checkpoint.

A session has one field in each of its scopes: all sessions (`latest`), those of its project, of its parent, and of the
token that owns it (`latest-within`). The field begins with the scope and a number that falls as time goes on, so that a
page of any scope is a range of its fields. `latest` leaves the scope out, because it has one only. A session without a
project is its own project.
"""

from __future__ import annotations

import string
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ledger.core.errors import InputError
from ledger.core.events import Outcome
from ledger.core.ids import check_id
from ledger.core.times import format_time, format_time_or_none
from ledger.log.completed import CURSOR_DIGITS
from ledger.log.divided import LATEST_VIEW, LATEST_WITHIN_VIEW
from ledger.log.places import ALL, field_of, parts_of, scope_of
from ledger.log.viewed import SessionRow, stored_row
from ledger.session.state import SessionState
from ledger.stores.divided import DividedView
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import StreamState, listed

_LATEST_MS: Final = 2**48 - 1
"""A time (ms) after every other; what is left until it is told in a fixed number of digits of six bits each."""

_LEFT_CHARS: Final = 8
_BASE64: Final = (string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/").encode()
_SORTED: Final = bytes(sorted((string.ascii_letters + string.digits + "-_").encode()))
_TO_SORTED: Final = bytes.maketrans(_BASE64, _SORTED)
_FROM_SORTED: Final = bytes.maketrans(_SORTED, _BASE64)


_OUTCOME_LETTERS: Final[dict[Outcome, str]] = {
    "allowed": "a",
    "denied": "d",
    "rejected": "r",
    "corrected": "c",
    "expired": "e",
    "cancelled": "x",
}


class Latest(NamedTuple):
    """The place of a session in a list by time: newest first, those of one millisecond by their ids."""

    ms: int
    session: str

    @property
    def order(self) -> str:
        """Return the end of its field, which sorts as the places do."""
        left_ms = max(_LATEST_MS - self.ms, 0).to_bytes(6)
        return b2a_base64(left_ms, newline=False).translate(_TO_SORTED).decode() + self.session

    @property
    def cursor(self) -> str:
        """Return the place as a cursor of what follows it."""
        return f"{self.ms}-{self.session}"

    @classmethod
    def of_field(cls, field: str) -> Latest:
        order = parts_of(field)[-1]
        left_ms = a2b_base64(order[:_LEFT_CHARS].encode().translate(_FROM_SORTED))
        return cls(_LATEST_MS - int.from_bytes(left_ms), order[_LEFT_CHARS:])

    @classmethod
    def of_cursor(cls, cursor: str) -> Latest:
        """Return the place of a cursor. Raises InputError."""
        ms, _, session = cursor.partition("-")
        if not (ms.isascii() and ms.isdecimal() and len(ms) <= CURSOR_DIGITS and session):
            raise InputError(f"`{cursor[:40]}` is not a cursor that was handed out")
        return cls(int(ms), check_id(session, "session id of the cursor"))


def project_sessions(key: StreamKey, first: StreamState, last: StreamState) -> Iterator[ViewWrite]:
    if not isinstance(last, SessionState):
        return
    old, new = _latest_of(first), _latest_of(last)
    yield from (ViewWrite(*place, None, "sorted") for place in old if place not in new)
    yield from (listed(*place) for place in new if place not in old)


def summary_stored(state: StreamState) -> bytes | None:
    """Return the summary of a stream as it is held beside its checkpoint; None for one that has none."""
    return stored_row(row_of(state)) if isinstance(state, SessionState) else None


def latest_view(scope: str) -> DividedView:
    """Return the view that has the fields of a scope."""
    return LATEST_VIEW if scope == ALL else LATEST_WITHIN_VIEW


def latest_prefix(scope: str) -> str:
    """Return the beginning of the fields of a scope in its view."""
    return "" if scope == ALL else scope


def outcome_field(session: str, outcome: Outcome) -> str:
    """Return the field of `outcomes` that counts a session's requests with an outcome."""
    return field_of(session, _OUTCOME_LETTERS[outcome])


def row_of(state: SessionState) -> SessionRow:
    """Return the row of a session."""
    return SessionRow(
        project=state.project,
        agent=state.agent,
        parent=state.parent,
        opened_ms=state.opened_ms,
        closed_ms=state.closed_ms,
        at_ms=state.last_ms,
        version=state.version,
        pending=len(state.pending),
        dialect=state.dialect or None,
        imported_ms=state.imported_ms,
        token_id=state.token_id,
        answered_ms=state.answered_ms,
    )


def shown_row(session: str, row: SessionRow) -> dict[str, Any]:
    """Return the row of a session for readers: its summary, and its token."""
    token = {} if row.token_id is None else {"token_id": row.token_id}
    return {**_summary(session, row), **token}


def _latest_of(state: StreamState) -> tuple[tuple[str, str], ...]:
    """Return the views that list a session by time, each with the session's field; none before its first event."""
    if not isinstance(state, SessionState) or state.version == 0:
        return ()
    scopes = [ALL, scope_of("project", state.project or state.session_id)]
    scopes += [] if state.parent is None else [scope_of("parent", state.parent)]
    scopes += [] if state.token_id is None else [scope_of("token", state.token_id)]
    order = Latest(state.last_ms, state.session_id).order
    return tuple((latest_view(scope).of(state.session_id), latest_prefix(scope) + order) for scope in scopes)


def summary_of(state: SessionState) -> dict[str, Any]:
    """Return the summary of a session, common to the views, the command line and the gateway's rows."""
    return _summary(state.session_id, row_of(state))


def _summary(session: str, row: SessionRow) -> dict[str, Any]:
    return {
        "session": session,
        "project": row.project,
        "agent": row.agent,
        "parent": row.parent,
        "opened_at": format_time_or_none(row.opened_ms),
        "closed_at": format_time_or_none(row.closed_ms),
        "at": format_time(row.at_ms),
        "version": row.version,
        "pending": row.pending,
        "dialect": row.dialect,
        "answered_at": format_time_or_none(row.answered_ms),
        **({} if row.imported_ms is None else {"imported_at": format_time(row.imported_ms)}),
    }
