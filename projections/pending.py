"""View `pending`: requests that wait for a person, one row for each (CONTRACT's `pending` object)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.client.results import Pending
from ledger.core.events import ClientConnected, Redacted
from ledger.core.grants import Recorded
from ledger.session.state import Request, SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import StreamState, field_of, row

PENDING: Final = "pending"


def project_pending(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> Iterator[ViewWrite]:
    if not isinstance(before, SessionState) or not isinstance(after, SessionState) or before.pending is after.pending:
        return
    for request_id in _touched(recorded, after):
        was, now = before.pending.get(request_id), after.pending.get(request_id)
        if was != now:
            yield _change(key, request_id, now)


def _touched(recorded: Recorded, after: SessionState) -> list[str]:
    """Return the ids of the requests that an event changes: one, but all pending ones when a client connects or content goes."""
    if isinstance(recorded.event, ClientConnected | Redacted):
        return sorted(after.pending)
    request_id = getattr(recorded.event, "request_id", None)
    return [request_id] if isinstance(request_id, str) else []


def _change(key: StreamKey, request_id: str, request: Request | None) -> ViewWrite:
    value = None if request is None else Pending(session=key.id, request=request).as_json()
    return row(PENDING, field_of(key.id, request_id), value)
