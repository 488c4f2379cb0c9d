"""Views for lookups: of a request and a grant by its id, of the sessions of a person, and of the uses of a grant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import crc32

from ledger.client.grant_uses import used_field
from ledger.core.codec import NewerEvent
from ledger.core.events import Agreed, Asked, Event, Granted, Replied
from ledger.log.divided import GRANTS_VIEW, PEOPLE_VIEW, REQUESTS_VIEW, USED_VIEW, USES_VIEW
from ledger.log.fingerprints import fingerprint_at, fingerprint_of_stream, fingerprints_of, number_at, number_of
from ledger.log.places import field_of
from ledger.log.viewed import pointer
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed


def project_requests(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    """Views `requests-0` to `requests-1f`: fingerprints of each request id and its session."""
    if key.kind == "session" and isinstance(seen.recorded.event, Asked):
        yield _found(seen.recorded.event.request_id, fingerprint_of_stream(key.id))


def requests_in(key: StreamKey, state: SessionState) -> list[ViewWrite]:
    """Return the fields of all requests of a session."""
    of_stream = fingerprint_of_stream(key.id)
    return [_found(request_id, of_stream) for some in (state.settled, state.pending) for request_id in some]


def _found(request_id: str, of_stream: str) -> ViewWrite:
    checksum = crc32(request_id.encode())
    view = REQUESTS_VIEW.at(checksum)
    return ViewWrite(view, fingerprint_at(checksum) + of_stream, number_at(checksum), "sorted")


def project_grants(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    """Views `grants-0` to `grants-3`: fingerprints of each grant's id and its stream, revoked ones included."""
    if isinstance(seen.recorded.event, Granted):
        grant_id = seen.recorded.event.grant_id
        yield listed(GRANTS_VIEW.of(grant_id), fingerprints_of(grant_id, key.id), number_of(grant_id))


def _is_own_answer(event: Event | NewerEvent) -> bool:
    if isinstance(event, Agreed):
        return True
    return isinstance(event, Replied) and event.is_own


def project_people(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    """Views `people-0` to `people-3`: the sessions in which each person has answered.

    An answer that was only reported by an agent's side is not listed: its author is the agent.
    """
    event = seen.recorded.event
    if key.kind == "session" and _is_own_answer(event):
        yield listed(PEOPLE_VIEW.of(key.id), field_of(seen.recorded.actor.name, key.id))


def project_uses(state: SessionState, at_ms: int, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    """Views `uses-0` to `uses-f`: the sessions in which each grant of a project let a call through."""
    for grant_id in grant_ids:
        # The session of a grant of its own is known.
        if grant_id not in state.grants:
            yield listed(USES_VIEW.of(state.session_id), pointer(grant_id, state.session_id))


def project_last_uses(state: SessionState, at_ms: int, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    """Views `used-0` to `used-3`: the last time at which each grant let a call through, by the stream of the grant.

    A call is in the partition of its session: the latest time of a project's grant is the highest of all partitions.
    """
    for grant_id in grant_ids:
        yield ViewWrite(USED_VIEW.of(grant_id), used_field(state, grant_id), at_ms, "latest")
