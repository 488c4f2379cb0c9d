"""Views `grants-0` to `grants-3`: fingerprints of each grant's id and its stream, revoked ones included."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.events import Granted
from ledger.log.divided import GRANTS_VIEW
from ledger.log.fingerprints import fingerprints_of, number_of
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed


def project_grants(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    if isinstance(seen.recorded.event, Granted):
        grant_id = seen.recorded.event.grant_id
        yield listed(GRANTS_VIEW.of(grant_id), fingerprints_of(grant_id, key.id), number_of(grant_id))
