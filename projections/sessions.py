"""Views of sessions: `sessions` (their summaries), `latest` (by last event) and `outcomes` (counts); views for lookups.

A session has one field of `latest` in each of its scopes: all sessions, those of its project, of its parent, and of the
token that owns it. The field begins with the scope and a number that falls as time goes on, so that a page of any scope
is a range of its fields. A session without a project is its own project.

Lookups are of a request and a grant by its id, of the sessions of a person, and of the uses of a grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from ledger.client.grant_uses import used_field
from ledger.core.codec import NewerEvent
from ledger.core.events import Agreed, Asked, Event, Granted, Replied
from ledger.core.ids import CURSOR_DIGITS, check_id, cursor_number, strange_cursor
from ledger.core.times import format_time, format_time_or_none
from ledger.log.places import ALL, field_of, parts_of, scope_of
from ledger.log.viewed import GRANTS_VIEW, REQUESTS_VIEW, SESSIONS_VIEW, USED_VIEW, USES_VIEW
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, StreamState, listed

LATEST_VIEW: Final = "latest"

OUTCOMES_VIEW: Final = "outcomes"
"""The number of each session's requests with each outcome."""

_LATEST_MS: Final = 10**CURSOR_DIGITS - 1
"""A time (ms) after every other; a field tells what is left until it."""


class Latest(NamedTuple):
    """The place of a session in a list by time: newest first, those of one millisecond by their ids."""

    ms: int
    session: str

    @property
    def order(self) -> str:
        """Return the end of its field, which sorts as the places do."""
        return field_of(f"{max(_LATEST_MS - self.ms, 0):0{CURSOR_DIGITS}d}", self.session)

    @property
    def cursor(self) -> str:
        """Return the place as a cursor of what follows it."""
        return f"{self.ms}-{self.session}"

    @classmethod
    def of_field(cls, field: str) -> Latest:
        left_ms, session = parts_of(field)[-2:]
        return cls(_LATEST_MS - int(left_ms), session)

    @classmethod
    def of_cursor(cls, cursor: str) -> Latest:
        """Return the place of a cursor. Raises InputError."""
        ms, _, session = cursor.partition("-")
        if not session:
            raise strange_cursor(cursor)
        return cls(cursor_number(ms, cursor), check_id(session, "session id of the cursor"))


def project_sessions(key: StreamKey, first: StreamState, last: StreamState) -> Iterator[ViewWrite]:
    if not isinstance(last, SessionState):
        return
    old, new = _latest_of(first), _latest_of(last)
    yield from (ViewWrite(LATEST_VIEW, place, None, "sorted") for place in old if place not in new)
    yield from (listed(LATEST_VIEW, place) for place in new if place not in old)
    token = {} if last.token_id is None else {"token_id": last.token_id}
    yield ViewWrite(SESSIONS_VIEW, key.id, msgspec.json.encode({**summary_of(last), **token}))


def _latest_of(state: StreamState) -> tuple[str, ...]:
    """Return the fields of a session in `latest`; none before its first event."""
    if not isinstance(state, SessionState) or state.version == 0:
        return ()
    scopes = [ALL, scope_of("project", state.project or state.session_id)]
    scopes += [] if state.parent is None else [scope_of("parent", state.parent)]
    scopes += [] if state.token_id is None else [scope_of("token", state.token_id)]
    order = Latest(state.last_ms, state.session_id).order
    return tuple(scope + order for scope in scopes)


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
        "dialect": state.dialect or None,
        "answered_at": format_time_or_none(state.answered_ms),
        **({} if state.imported_ms is None else {"imported_at": format_time(state.imported_ms)}),
    }


PEOPLE_VIEW: Final = "people"


def project_requests(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    """View `requests`: each request id and its session."""
    if key.kind == "session" and isinstance(seen.recorded.event, Asked):
        yield listed(REQUESTS_VIEW, field_of(seen.recorded.event.request_id, key.id))


def requests_in(key: StreamKey, state: SessionState) -> list[ViewWrite]:
    """Return the fields of all requests of a session."""
    return [listed(REQUESTS_VIEW, field_of(one, key.id)) for some in (state.settled, state.pending) for one in some]


def project_grants(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    """View `grants`: each grant's id and its stream, revoked ones included."""
    if isinstance(seen.recorded.event, Granted):
        yield listed(GRANTS_VIEW, field_of(seen.recorded.event.grant_id, key.name))


def _is_own_answer(event: Event | NewerEvent) -> bool:
    if isinstance(event, Agreed):
        return True
    return isinstance(event, Replied) and event.is_own


def project_people(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    """View `people`: the sessions in which each person has answered.

    An answer that was only reported by an agent's side is not listed: its author is the agent.
    """
    event = seen.recorded.event
    if key.kind == "session" and _is_own_answer(event):
        yield listed(PEOPLE_VIEW, field_of(seen.recorded.actor.name, key.id))


def project_uses(state: SessionState, at_ms: int, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    """View `uses`: the sessions in which each grant of a project let a call through."""
    for grant_id in grant_ids:
        # The session of a grant of its own is known.
        if grant_id not in state.grants:
            yield listed(USES_VIEW, field_of(grant_id, state.session_id))


def project_last_uses(state: SessionState, at_ms: int, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    """View `used`: the last time at which each grant let a call through, by the stream of the grant.

    A call is in the partition of its session: the latest time of a project's grant is the highest of all partitions.
    """
    for grant_id in grant_ids:
        yield ViewWrite(USED_VIEW, used_field(state, grant_id), at_ms, "latest")
