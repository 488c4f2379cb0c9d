"""Views for lookups: of a request and a grant by its id, of the sessions of a person, and of the uses of a grant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ledger.client.grant_uses import used_field
from ledger.core.codec import NewerEvent
from ledger.core.events import Agreed, Asked, Event, Granted, Replied
from ledger.log.places import field_of
from ledger.log.viewed import GRANTS_VIEW, REQUESTS_VIEW, USED_VIEW, USES_VIEW
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.values import ViewWrite
from projections.projection import Seen, listed

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
