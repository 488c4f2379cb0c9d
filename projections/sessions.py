"""Views of sessions: `sessions` (summaries), `recent` (by time of the last event), `outcomes` (counts)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ledger.core.grants import Recorded
from ledger.core.times import format_time, format_time_or_none
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.outcomes import settled_change
from projections.projection import StreamState, counted, field_of, row

SESSIONS: Final = "sessions"
RECENT: Final = "recent"
OUTCOMES: Final = "outcomes"


def project_sessions(
    key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState
) -> Iterator[ViewWrite]:
    if not isinstance(after, SessionState):
        return
    token = {} if after.token_id is None else {"token_id": after.token_id}
    yield row(SESSIONS, key.id, {**summary_of(after), "clients": len(after.clients), **token})
    yield ViewWrite(RECENT, key.id, recorded.ms, "sorted")
    was, now = settled_change(before, recorded, after)
    if was is not None:
        yield counted(OUTCOMES, field_of(key.id, was.outcome), -1)
    if now is not None:
        yield counted(OUTCOMES, field_of(key.id, now.outcome), 1)


def summary_of(state: SessionState) -> dict[str, Any]:
    """Return the summary of a session, common to the views, the command line and the gateway's rows."""
    return {
        "session": state.session_id,
        "project": state.project,
        "agent": state.agent,
        "parent": state.parent,
        "opened_at": format_time_or_none(state.opened_ms),
        "closed_at": format_time_or_none(state.closed_ms),
        "at": format_time(state.last_ms),
        "version": state.version,
        "pending": len(state.pending),
        "dialect": state.policy.dialect if state.policy else None,
        **({} if state.imported_ms is None else {"imported_at": format_time(state.imported_ms)}),
    }
