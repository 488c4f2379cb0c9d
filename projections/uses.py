"""Views `uses-0` to `uses-f`: the sessions in which each grant of a project let a call through, for `revoke --uses-of`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.log.divided import USES_VIEW
from ledger.log.viewed import pointer
from ledger.session.state import SessionState
from ledger.stores.port import ViewWrite
from projections.projection import listed


def project_uses(state: SessionState, at_ms: int, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    for grant_id in grant_ids:
        # The session of a grant of its own is known.
        if grant_id not in state.grants:
            yield listed(USES_VIEW.of(state.session_id), pointer(grant_id, state.session_id))
