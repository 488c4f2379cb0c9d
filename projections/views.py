"""All views, and the changes that one stream's events make in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ledger.core.grants import Recorded
from ledger.log.snapshots import SNAPSHOTS_VIEW
from ledger.log.viewed import HEADS_VIEW
from ledger.stores.admin import SKIPPED
from ledger.stores.port import Position, StreamKey, ViewWrite
from projections.approved import APPROVED, STANDING, project_approved
from projections.counts import project_counts
from projections.durations import project_durations
from projections.grants import GRANTS, project_grants
from projections.last_uses import USED, project_last_uses
from projections.notifications import TOLD, project_notifications
from projections.pending import PENDING, WAITING, project_pending
from projections.people import PEOPLE, project_people
from projections.projection import COUNTS, Change, LateRow, Projection, StreamState
from projections.requests import REQUESTS, project_requests
from projections.sessions import LATEST, OUTCOMES, SESSIONS, project_sessions
from projections.uses import USES, project_uses

PROJECTIONS: Final[tuple[Projection, ...]] = (
    project_pending,
    project_approved,
    project_sessions,
    project_requests,
    project_grants,
    project_counts,
    project_durations,
    project_notifications,
    project_people,
    project_uses,
    project_last_uses,
)

HEADS: Final = HEADS_VIEW
"""The view of the entry that each stream's views are as of; unlike a version, its id reveals a lost history."""

FIXED: Final = (
    *(HEADS, SNAPSHOTS_VIEW, SKIPPED, PENDING, APPROVED, SESSIONS, LATEST, OUTCOMES),
    *(REQUESTS, GRANTS, COUNTS, TOLD, PEOPLE, USES, STANDING, USED, WAITING),
)
"""Every view. A partition has no other one."""

_PLACES: Final = frozenset((LATEST, WAITING))
"""The views of places that are taken and left again."""


def changes_of(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> list[Change]:
    """Return the changes of one event in all views."""
    return [change for project in PROJECTIONS for change in project(key, before, recorded, after)]


def size_of(change: Change) -> int:
    """Return the size of a change in bytes; that of a late row is not known yet."""
    return len(change.field) + (len(change.value) if isinstance(change.value, bytes) else 0)


class Changes:
    """Merged changes of many events of one stream: the last one of a field wins, counts are summed."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Change] = {}
        self._bytes: dict[tuple[str, str], int] = {}
        self._taken: set[tuple[str, str]] = set()
        self.size_bytes = 0

    def add(self, changes: Iterable[Change]) -> None:
        for change in changes:
            place = (change.view, change.field)
            known = self._last.get(place)
            if change.kind == "count" and known is not None:
                change = _summed(known, change)  # noqa: PLW2901 - one place, one change
            if change.view in _PLACES and known is None and change.value is not None:
                self._taken.add(place)
            elif change.value is None and place in self._taken:
                # A place that was taken and left in one step was nobody's before.
                self._taken.discard(place)
                self.size_bytes -= self._bytes.pop(place)
                del self._last[place]
                continue
            self._last[place] = change
            size = size_of(change)
            self.size_bytes += size - self._bytes.get(place, 0)
            self._bytes[place] = size

    def rows(self) -> list[ViewWrite]:
        """Return the changes alone."""
        return [change.write() if isinstance(change, LateRow) else change for change in self._last.values()]

    def writes(self, key: StreamKey, head: Position) -> list[ViewWrite]:
        """Return the changes, with the head that they are as of.

        Counts come last: if the server refuses in the middle, repeating the changes before them is harmless.
        """
        ordered = sorted(self.rows(), key=lambda write: write.kind == "count")
        return [ViewWrite(HEADS, key.name, str(head).encode()), *ordered]


def _summed(known: Change, more: Change) -> ViewWrite:
    assert isinstance(known, ViewWrite)
    assert isinstance(known.value, int)
    assert isinstance(more.value, int)
    return known._replace(value=known.value + more.value)
