"""View `grants`: the stream of each grant, revoked ones included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Granted
from ledger.log.viewed import GRANTS_VIEW, pointer
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed

GRANTS: Final = GRANTS_VIEW


def project_grants(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    if isinstance(seen.recorded.event, Granted):
        yield listed(GRANTS, pointer(seen.recorded.event.grant_id, key.name))
