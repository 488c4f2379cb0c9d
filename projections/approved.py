"""View `approved`: grants that were not revoked, one row for each (CONTRACT's `approved` object).

An expired grant stays in the view, because no event ends it; readers filter it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.access.state import AccessState
from ledger.client.results import Approved
from ledger.core.events import Granted, Imported, Revoked
from ledger.core.grants import Recorded, StandingGrant
from ledger.project.state import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import StreamState, field_of, row

APPROVED: Final = "approved"


def project_approved(
    key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState
) -> Iterator[ViewWrite]:
    event = recorded.event
    if isinstance(before, AccessState) or isinstance(after, AccessState) or before.grants is after.grants:
        return
    if isinstance(event, Granted | Revoked):
        grant = after.grants.get(event.grant_id)
        if grant is not None:
            yield _row(key, after, grant)
    elif isinstance(event, Imported):
        for grant in sorted(after.grants.values(), key=lambda grant: grant.version):
            yield _row(key, after, grant)


def _row(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> ViewWrite:
    standing = None if grant.revoked_ms is not None else _standing(key, state, grant).as_json()
    return row(APPROVED, field_of(key.name, grant.grant_id), standing)


def _standing(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> Approved:
    if isinstance(state, SessionState):
        return Approved(grant=grant, session=key.id, project=state.project)
    return Approved(grant=grant, session=grant.session, project=key.id)
