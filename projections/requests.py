"""Views `requests-0` to `requests-1f`: fingerprints of each request id and its session, for a reply by the id alone."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from ledger.core.events import Asked
from ledger.log.divided import REQUESTS_VIEW
from ledger.log.fingerprints import fingerprint_at, fingerprint_of_stream, number_at
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen


def project_requests(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
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
