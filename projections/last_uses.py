"""Views `used-0` to `used-3`: the last time at which each grant let a call through, by the stream of the grant.

A call is in the partition of its session, so the latest time of a project's grant is the highest of all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.client.grant_uses import used_field
from ledger.log.divided import USED_VIEW
from ledger.session.state import SessionState
from ledger.stores.port import ViewWrite


def project_last_uses(state: SessionState, at_ms: int, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    for grant_id in grant_ids:
        yield ViewWrite(USED_VIEW.of(grant_id), used_field(state, grant_id), at_ms, "latest")
