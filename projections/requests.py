"""Views `requests-0` to `requests-f`: fingerprints of each request id and its session, for a reply by the id alone."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.events import Asked
from ledger.log.divided import REQUESTS_VIEW
from ledger.log.fingerprints import fingerprints_of
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed


def project_requests(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    if key.kind == "session" and isinstance(seen.recorded.event, Asked):
        request_id = seen.recorded.event.request_id
        yield listed(REQUESTS_VIEW.of(request_id), fingerprints_of(request_id, key.id))
