"""View `requests`: the sessions of each request id, so that a reply by the id alone need not search all sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Asked
from ledger.log.viewed import REQUESTS_VIEW, pointer
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed

REQUESTS: Final = REQUESTS_VIEW


def project_requests(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    if key.kind == "session" and isinstance(seen.recorded.event, Asked):
        yield listed(REQUESTS, pointer(seen.recorded.event.request_id, key.id))
