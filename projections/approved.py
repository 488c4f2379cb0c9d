"""View `approved`: grants neither revoked nor redacted, with uses left, one row for each (CONTRACT's `approved` object).

An expired grant stays in the view, because no event ends it; readers filter it out. The last use of a grant without a
limit is not in its row, which would change with every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ledger.access.state import AccessState
from ledger.client.results import Approved
from ledger.core.events import Asked, Granted, Imported, Replied, Revoked, UseTaken
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
    elif isinstance(event, UseTaken):
        yield from _rows(key, after, (event.grant_id,))
    elif isinstance(event, Asked | Replied):
        yield from _rows(key, after, event.uses)
    elif isinstance(event, Imported):
        for grant in sorted(after.grants.values(), key=lambda grant: grant.version):
            yield _row(key, after, grant)


def _rows(key: StreamKey, state: SessionState | ProjectState, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    """Yield the rows of the stream's own grants among these, of which uses were taken."""
    grants = (state.grants.get(grant_id) for grant_id in grant_ids)
    yield from (_row(key, state, grant) for grant in grants if grant is not None)


def _row(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> ViewWrite:
    has_ended = grant.revoked_ms is not None or grant.redacted or grant.uses_left == 0
    standing = None if has_ended else _standing(key, state, grant).as_json()
    return row(APPROVED, field_of(key.name, grant.grant_id), standing)


def _standing(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> Approved:
    if isinstance(state, SessionState):
        return Approved(grant=grant, session=key.id, project=state.project)
    return Approved(grant=grant, session=grant.session, project=key.id)
