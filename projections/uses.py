"""View `uses`: the sessions in which each grant of a project let a call through, for `revoke --uses-of`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.client.grant_uses import grants_behind
from ledger.log.viewed import USES_VIEW, pointer
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed

USES: Final = USES_VIEW


def project_uses(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    now, after = seen.now, seen.after
    if now is None or not isinstance(after, SessionState):
        return
    for grant_id in grants_behind(after, now):
        # The session of a grant of its own is known.
        if grant_id not in after.grants:
            yield listed(USES, pointer(grant_id, key.id))
