"""All views, and the changes that one stream's events make in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.grants import Recorded
from ledger.stores.port import Position, StreamKey, ViewWrite
from projections.approved import APPROVED, project_approved
from projections.counts import COUNTS, project_counts
from projections.durations import DURATIONS, project_durations
from projections.grants import GRANTS, project_grants
from projections.notifications import NOTIFICATIONS, TOLD, project_notifications
from projections.pending import PENDING, project_pending
from projections.people import PEOPLE, project_people
from projections.projection import Projection, StreamState
from projections.requests import REQUESTS, project_requests
from projections.sessions import OUTCOMES, RECENT, SESSIONS, project_sessions
from projections.timeline import project_timeline

PROJECTIONS: Final[tuple[Projection, ...]] = (
    project_pending,
    project_approved,
    project_sessions,
    project_timeline,
    project_requests,
    project_grants,
    project_counts,
    project_durations,
    project_notifications,
    project_people,
)

HEADS: Final = "heads"
"""The view of the entry that each stream's views are as of; unlike a version, its id reveals a lost history."""

SNAPSHOTS: Final = "snapshots"
"""The view of snapshots: a cache, not part of the views' content."""

FIXED: Final = (
    *(HEADS, SNAPSHOTS, PENDING, APPROVED, SESSIONS, RECENT, OUTCOMES),
    *(REQUESTS, GRANTS, COUNTS, DURATIONS, NOTIFICATIONS, TOLD, PEOPLE),
)
"""Every view except the timelines, which are named after sessions."""


def changes_of(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> list[ViewWrite]:
    """Return the changes of one event in all views."""
    return [write for project in PROJECTIONS for write in project(key, before, recorded, after)]


def size_of(write: ViewWrite) -> int:
    """Return the size of a change in bytes."""
    return len(write.field) + (len(write.value) if isinstance(write.value, bytes) else 0)


class Changes:
    """Merged changes of many events of one stream: the last one of a field wins, counts are summed."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], ViewWrite] = {}
        self._bytes: dict[tuple[str, str], int] = {}
        self.size_bytes = 0

    def add(self, writes: Sequence[ViewWrite]) -> None:
        for write in writes:
            place = (write.view, write.field)
            known = self._last.get(place)
            if write.kind == "count" and known is not None:
                assert isinstance(known.value, int)
                assert isinstance(write.value, int)
                write = write._replace(value=known.value + write.value)  # noqa: PLW2901 - one place, one change
            self._last[place] = write
            size = size_of(write)
            self.size_bytes += size - self._bytes.get(place, 0)
            self._bytes[place] = size

    def rows(self) -> list[ViewWrite]:
        """Return the changes alone."""
        return list(self._last.values())

    def writes(self, key: StreamKey, head: Position) -> list[ViewWrite]:
        """Return the changes, with the head that they are as of.

        Counts come last: if the server refuses in the middle, repeating the changes before them is harmless.
        """
        ordered = sorted(self._last.values(), key=lambda write: write.kind == "count")
        return [ViewWrite(HEADS, key.name, str(head).encode()), *ordered]
