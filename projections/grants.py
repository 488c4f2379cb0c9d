"""View `grants`: the stream of each grant, revoked ones included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Granted
from ledger.core.grants import Recorded
from ledger.log.viewed import GRANTS_VIEW, pointer
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import StreamState, listed

GRANTS: Final = GRANTS_VIEW


def project_grants(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> Iterator[ViewWrite]:
    if isinstance(recorded.event, Granted):
        yield listed(GRANTS, pointer(recorded.event.grant_id, key.name))
