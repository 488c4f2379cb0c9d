"""View `grants`: the stream of each grant, revoked ones included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Granted
from ledger.core.grants import Recorded
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import StreamState, field_of, listed

GRANTS: Final = "grants"


def project_grants(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> Iterator[ViewWrite]:
    if isinstance(recorded.event, Granted):
        yield listed(GRANTS, field_of(recorded.event.grant_id, key.name))
