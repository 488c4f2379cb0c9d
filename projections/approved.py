"""Views `approved` and `standing`: grants neither revoked nor redacted, with uses left, whose session is open.

`approved` has one row for each (CONTRACT's `approved` object). `standing` lists them in order of creation: all, and those
of each project with its sessions, and once more by their ids. An expired grant stays in the views, because no event ends it; readers filter it
out. The last use of a grant without a limit is not in its row, which would change with every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from ledger.access.state import AccessState
from ledger.client.results import Approved
from ledger.core.events import Asked, Granted, Imported, Replied, Revoked, SessionClosed, UseTaken
from ledger.core.grants import StandingGrant
from ledger.log.places import ALL, APPROVED_VIEW, STANDING_VIEW, GrantPlace, field_of, named_of, scope_of
from ledger.policy.stored_rules import RulesState
from ledger.project import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.values import ViewWrite
from projections.projection import Seen, listed

APPROVED: Final = APPROVED_VIEW
STANDING: Final = STANDING_VIEW

WITHOUT_GRANTS: Final = (AccessState, RulesState)
"""States of the streams that have no grants."""


def project_approved(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    before, event, after = seen.before, seen.recorded.event, seen.after
    if isinstance(before, WITHOUT_GRANTS) or isinstance(after, WITHOUT_GRANTS):
        return
    if isinstance(event, SessionClosed):
        yield from _rows(key, after, sorted(after.grants))
    if before.grants is after.grants:
        return
    if isinstance(event, Granted | Revoked):
        grant = after.grants.get(event.grant_id)
        if grant is not None:
            yield from _changes(key, after, grant)
    elif isinstance(event, UseTaken):
        yield from _rows(key, after, (event.grant_id,))
    elif isinstance(event, Asked | Replied):
        yield from _rows(key, after, event.uses)
    elif isinstance(event, Imported):
        for grant in sorted(after.grants.values(), key=lambda grant: grant.version):
            yield from _changes(key, after, grant)


def approved_in(key: StreamKey, state: SessionState | ProjectState) -> Iterator[ViewWrite]:
    """Yield the rows of all grants of a stream; those of ended ones are without a value."""
    if not _is_closed(state):
        yield from _rows(key, state, sorted(state.grants))


def _rows(key: StreamKey, state: SessionState | ProjectState, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    """Yield the rows of the stream's own grants among these."""
    grants = (state.grants.get(grant_id) for grant_id in grant_ids)
    for grant in grants:
        if grant is not None:
            yield from _changes(key, state, grant)


def _changes(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> Iterator[ViewWrite]:
    has_ended = grant.revoked_ms is not None or grant.redacted or grant.uses_left == 0 or _is_closed(state)
    standing = _standing(key, state, grant)
    value = None if has_ended else msgspec.json.encode(standing.as_json())
    yield ViewWrite(APPROVED, field_of(key.name, grant.grant_id), value)
    order = GrantPlace(grant.at_ms, grant.grant_id, key.name).order
    lists = (ALL, scope_of("project", standing.project or key.id))
    for field in (*(scope + order for scope in lists), named_of(grant.grant_id, key.name)):
        place = listed(STANDING, field)
        yield replace(place, value=None) if has_ended else place


def _is_closed(state: SessionState | ProjectState) -> bool:
    return isinstance(state, SessionState) and state.closed_ms is not None


def _standing(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> Approved:
    if isinstance(state, SessionState):
        return Approved(grant=grant, session=key.id, project=state.project)
    return Approved(grant=grant, session=grant.session, project=key.id)
