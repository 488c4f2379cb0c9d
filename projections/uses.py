"""Views `uses-0` to `uses-f`: the sessions in which each grant of a project let a call through, for `revoke --uses-of`."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.client.grant_uses import grants_behind
from ledger.log.divided import USES_VIEW
from ledger.log.viewed import pointer
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed


def project_uses(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    now, after = seen.now, seen.after
    if now is None or not isinstance(after, SessionState):
        return
    for grant_id in grants_behind(after, now):
        # The session of a grant of its own is known.
        if grant_id not in after.grants:
            yield listed(USES_VIEW.of(key.id), pointer(grant_id, key.id))
