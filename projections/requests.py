"""View `requests`: the sessions of each request id, so that a reply by the id alone need not search all sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Asked
from ledger.core.grants import Recorded
from ledger.log.viewed import REQUESTS_VIEW, pointer
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import StreamState, listed

REQUESTS: Final = REQUESTS_VIEW


def project_requests(
    key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState
) -> Iterator[ViewWrite]:
    if key.kind == "session" and isinstance(recorded.event, Asked):
        yield listed(REQUESTS, pointer(recorded.event.request_id, key.id))
