"""Views `used-0` to `used-3`: the last time at which each grant let a call through, by the stream of the grant.

A call is in the partition of its session, so the latest time of a project's grant is the highest of all partitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.client.grant_uses import grants_behind, used_field
from ledger.log.divided import USED_VIEW
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen


def project_last_uses(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    settled, after = seen.now, seen.after
    if settled is None or not isinstance(after, SessionState):
        return
    for grant_id in grants_behind(after, settled):
        yield ViewWrite(USED_VIEW.of(grant_id), used_field(after, grant_id), settled.at_ms, "latest")
