"""View `pending`: requests that wait for a person, one row for each (CONTRACT's `pending` object)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.client.results import Pending
from ledger.core.events import ClientConnected, Redacted
from ledger.core.grants import Recorded
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from projections.projection import Change, LateRow, StreamState, field_of, row

PENDING: Final = "pending"


def project_pending(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> Iterator[Change]:
    if not isinstance(before, SessionState) or not isinstance(after, SessionState) or before.pending is after.pending:
        return
    touched = _touched(recorded, after)
    for request_id in touched:
        was, now = before.pending.get(request_id), after.pending.get(request_id)
        if now is None and was is not None:
            yield row(PENDING, field_of(key.id, request_id), None)
        elif now is not None and was != now:
            change = LateRow(PENDING, field_of(key.id, request_id), Pending(session=key.id, request=now).as_json)
            # Many rows of one event count towards the size of a step, which knows the event's own size alone.
            yield change if len(touched) == 1 else change.write()


def _touched(recorded: Recorded, after: SessionState) -> list[str]:
    """Return the ids of the requests that an event changes: one, but all pending ones when a client connects or content goes."""
    if isinstance(recorded.event, ClientConnected | Redacted):
        return sorted(after.pending)
    request_id = getattr(recorded.event, "request_id", None)
    return [request_id] if isinstance(request_id, str) else []
