"""View `used`: the last time at which each grant let a call through, by the stream of the grant.

A call is in the partition of its session, so the latest time of a project's grant is the highest of all partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.client.grant_uses import grants_behind
from ledger.core.grants import Recorded
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.outcomes import settled_change
from projections.projection import StreamState, field_of

USED: Final = "used"


def project_last_uses(
    key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState
) -> Iterator[ViewWrite]:
    _, settled = settled_change(before, recorded, after)
    if settled is None or not isinstance(after, SessionState):
        return
    for grant_id in grants_behind(after, settled):
        yield ViewWrite(USED, used_field(after, grant_id), settled.at_ms, "latest")


def used_field(state: SessionState, grant_id: str) -> str:
    """Return the field of a grant that a session used: its own, or its project's."""
    own = grant_id in state.grants or state.project is None
    key = StreamKey("session", state.session_id) if own else StreamKey("project", str(state.project))
    return field_of(key.name, grant_id)
