"""Views `approved` and `standing`: grants neither revoked nor redacted, with uses left.

`approved` has one row for each (CONTRACT's `approved` object). `standing` lists them in order of creation: all, and those
of each project with its sessions. An expired grant stays in the views, because no event ends it; readers filter it
out. The last use of a grant without a limit is not in its row, which would change with every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ledger.access.state import AccessState
from ledger.client.results import Approved
from ledger.core.errors import InputError
from ledger.core.events import Asked, Granted, Imported, Replied, Revoked, UseTaken
from ledger.core.grants import Recorded, StandingGrant
from ledger.core.ids import check_id
from ledger.project.state import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.completed import CURSOR_DIGITS
from projections.projection import StreamState, field_of, listed, parts_of, row

APPROVED: Final = "approved"
STANDING: Final = "standing"

ALL_GRANTS: Final = field_of("all", "")
_AFTER_STREAMS: Final = chr(0x10FFFF)
"""A name after that of every stream."""


class GrantPlace(NamedTuple):
    """The place of a grant in a list: oldest first, those of one millisecond by their ids."""

    at_ms: int
    grant_id: str
    stream: str = _AFTER_STREAMS

    @property
    def order(self) -> str:
        """Return the end of its field, which sorts as the places do."""
        return field_of(f"{self.at_ms:0{CURSOR_DIGITS}d}", self.grant_id, self.stream)

    @property
    def cursor(self) -> str:
        """Return the place as a cursor of what follows it."""
        return f"{self.at_ms}-{self.grant_id}"

    @classmethod
    def of_field(cls, field: str) -> GrantPlace:
        at_ms, grant_id, stream = parts_of(field)[-3:]
        return cls(int(at_ms), grant_id, stream)

    @classmethod
    def of_cursor(cls, cursor: str) -> GrantPlace:
        """Return the place of a cursor. Raises InputError."""
        ms, _, grant_id = cursor.partition("-")
        if not (ms.isascii() and ms.isdecimal() and len(ms) <= CURSOR_DIGITS and grant_id):
            raise InputError(f"`{cursor[:40]}` is not a cursor that was handed out")
        return cls(int(ms), check_id(grant_id, "grant id of the cursor"))


def project_scope(project: str) -> str:
    """Return the beginning of the fields of a project's grants, and of those of its sessions."""
    return field_of("project", project, "")


def project_approved(
    key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState
) -> Iterator[ViewWrite]:
    event = recorded.event
    if isinstance(before, AccessState) or isinstance(after, AccessState) or before.grants is after.grants:
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


def _rows(key: StreamKey, state: SessionState | ProjectState, grant_ids: Iterable[str]) -> Iterator[ViewWrite]:
    """Yield the rows of the stream's own grants among these, of which uses were taken."""
    grants = (state.grants.get(grant_id) for grant_id in grant_ids)
    for grant in grants:
        if grant is not None:
            yield from _changes(key, state, grant)


def _changes(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> Iterator[ViewWrite]:
    has_ended = grant.revoked_ms is not None or grant.redacted or grant.uses_left == 0
    standing = _standing(key, state, grant)
    yield row(APPROVED, field_of(key.name, grant.grant_id), None if has_ended else standing.as_json())
    order = GrantPlace(grant.at_ms, grant.grant_id, key.name).order
    for scope in (ALL_GRANTS, project_scope(standing.project or key.id)):
        place = listed(STANDING, scope + order)
        yield place._replace(value=None) if has_ended else place


def _standing(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> Approved:
    if isinstance(state, SessionState):
        return Approved(grant=grant, session=key.id, project=state.project)
    return Approved(grant=grant, session=grant.session, project=key.id)
