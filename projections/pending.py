"""Views of requests that wait for a person.

`pending` has one row for each (CONTRACT's `pending` object). `waiting` lists them, nearest deadline first: all, those of a
project, of an agent's token. One more list is in order of asking: its first field is the oldest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.client.pending_list import scopes_of
from ledger.client.results import Pending
from ledger.core.events import ClientConnected, Redacted
from ledger.core.grants import Recorded
from ledger.log.places import WAITING_VIEW, WaitingPlace, field_of
from ledger.session.state import Request, SessionState
from ledger.stores.port import StreamKey
from ledger.stores.values import ViewWrite
from projections.projection import Change, LateRow, Seen, listed, row

PENDING: Final = "pending"
WAITING: Final = WAITING_VIEW


def project_pending(key: StreamKey, seen: Seen) -> Iterator[Change]:
    before, recorded, after = seen.before, seen.recorded, seen.after
    if not isinstance(before, SessionState) or not isinstance(after, SessionState) or before.pending is after.pending:
        return
    touched = _touched(recorded, after)
    for request_id in touched:
        was, now = before.pending.get(request_id), after.pending.get(request_id)
        yield from _moved(_places(before, was), _places(after, now))
        if now is None and was is not None:
            yield row(PENDING, field_of(key.id, request_id), None)
        elif now is not None and was != now:
            change = LateRow(PENDING, field_of(key.id, request_id), Pending(session=key.id, request=now).as_json)
            # Many rows of one event count towards the size of a step, which knows the event's own size alone.
            yield change if len(touched) == 1 else change.write()


def pending_in(key: StreamKey, state: SessionState) -> Iterator[ViewWrite]:
    """Yield the rows of all that is pending in a session."""
    for request_id, request in state.pending.items():
        yield from (listed(WAITING, field) for field in _places(state, request))
        yield row(PENDING, field_of(key.id, request_id), Pending(session=key.id, request=request).as_json())


def _places(state: SessionState, request: Request | None) -> list[str]:
    """Return the fields of a request in `waiting`; none where it is not pending."""
    if request is None:
        return []
    place = WaitingPlace.of_request(state.session_id, request)
    return [*(scope + place.order for scope in scopes_of(state)), place.asked, place.named]


def _moved(old: list[str], new: list[str]) -> Iterator[Change]:
    if old != new:
        yield from (ViewWrite(WAITING, field, None, "sorted") for field in old)
        yield from (listed(WAITING, field) for field in new)


def _touched(recorded: Recorded, after: SessionState) -> list[str]:
    """Return the ids of the requests that an event changes: one, but all pending ones when a client connects or content goes."""
    if isinstance(recorded.event, ClientConnected | Redacted):
        return sorted(after.pending)
    request_id = getattr(recorded.event, "request_id", None)
    return [request_id] if isinstance(request_id, str) else []
