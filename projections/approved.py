"""View `approved`: grants that were not revoked, one row a grant (CONTRACT's `approved` object).

A grant that ends by its own time stays in the view, since no event ends it; readers leave it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.access import AccessState
from ledger.events import Granted, Revoked
from ledger.grants import Recorded, StandingGrant
from ledger.project import ProjectState
from ledger.results import Approved
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import State, field_of, row

APPROVED: Final = "approved"


def project_approved(key: StreamKey, before: State, recorded: Recorded, after: State) -> Iterator[ViewWrite]:
    event = recorded.event
    if not isinstance(event, Granted | Revoked) or isinstance(before, AccessState) or isinstance(after, AccessState):
        return
    if before.grants is after.grants:
        return
    grant = after.grants.get(event.grant_id)
    if grant is not None:
        standing = None if grant.revoked_ms is not None else _standing(key, after, grant)
        yield row(APPROVED, field_of(key.name, event.grant_id), None if standing is None else standing.as_json())


def _standing(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> Approved:
    if isinstance(state, SessionState):
        return Approved(grant=grant, session=key.id, project=state.project)
    return Approved(grant=grant, session=grant.session, project=key.id)
