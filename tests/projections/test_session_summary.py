"""A session has one summary, which views, the command line and the gateway's rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from ledger.log.history import Moment
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from projections.sessions import project_sessions, summary_of
from workers.gateway.descriptions import session_row
from workers.presentation.moments import Clients, moment_json

OPEN: Final = SessionState(
    session_id="ses_1",
    project="shop",
    agent="build",
    parent="ses_0",
    opened_ms=1000,
    last_ms=3000,
    version=7,
    dialect="codelia",
    token_id="tok_1",
)
CLOSED: Final = SessionState(session_id="ses_2", opened_ms=1000, imported_ms=2000, closed_ms=3000, last_ms=3000)

SUMMARIES: Final[list[tuple[SessionState, dict[str, Any]]]] = [
    (
        OPEN,
        {
            "session": "ses_1",
            "project": "shop",
            "agent": "build",
            "parent": "ses_0",
            "opened_at": "1970-01-01T00:00:01.000Z",
            "closed_at": None,
            "at": "1970-01-01T00:00:03.000Z",
            "version": 7,
            "pending": 0,
            "dialect": "codelia",
            "answered_at": None,
        },
    ),
    (
        CLOSED,
        {
            "session": "ses_2",
            "project": None,
            "agent": None,
            "parent": None,
            "opened_at": "1970-01-01T00:00:01.000Z",
            "closed_at": "1970-01-01T00:00:03.000Z",
            "at": "1970-01-01T00:00:03.000Z",
            "version": 0,
            "pending": 0,
            "dialect": None,
            "answered_at": None,
            "imported_at": "1970-01-01T00:00:02.000Z",
        },
    ),
]


def _of_view(state: SessionState) -> dict[str, Any]:
    key = StreamKey("session", state.session_id)
    *_, row = project_sessions(key, SessionState(session_id=state.session_id), state)
    assert (row.view, row.field) == ("sessions", key.id)
    assert isinstance(row.value, bytes)
    return msgspec.json.decode(row.value, type=dict[str, Any])


READERS: Final[dict[str, Callable[[SessionState], dict[str, Any]]]] = {
    "view": _of_view,
    "gateway": session_row,
    "show": lambda state: moment_json(Moment(state, state.version, state.last_ms), [], Clients("online", [])),
}


@pytest.mark.parametrize(("state", "summary"), SUMMARIES)
def test_a_summary_has_these_members(state: SessionState, summary: dict[str, Any]) -> None:
    assert summary_of(state) == summary


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("state", "summary"), SUMMARIES)
def test_every_reader_shows_the_whole_summary(state: SessionState, summary: dict[str, Any], reader: str) -> None:
    shown = READERS[reader](state)
    of_state = {"pending"} if reader == "show" else set()
    assert {name: shown[name] for name in summary if name not in of_state} == {
        name: value for name, value in summary.items() if name not in of_state
    }


def test_the_view_adds_the_token() -> None:
    assert {name: value for name, value in _of_view(OPEN).items() if name not in summary_of(OPEN)} == {
        "token_id": "tok_1",
    }
    assert "token_id" not in _of_view(CLOSED)
