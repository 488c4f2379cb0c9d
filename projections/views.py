"""All views, and the changes that one stream's events make in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ledger.client.grant_uses import grants_behind
from ledger.core.event_shapes import Notification
from ledger.core.events import Asked, DeadlineMoved, Expired, Granted, Replied, SessionClosed
from ledger.log.snapshots import SNAPSHOTS_VIEW
from ledger.log.viewed import GRANTS_VIEW, REQUESTS_VIEW, SESSIONS_VIEW, USED_VIEW, USES_VIEW
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.values import CHECKPOINTS_VIEW, SKIPPED, ViewWrite
from projections.approved import APPROVED, STANDING, WITHOUT_GRANTS, approved_in, project_approved
from projections.counts import project_answers, project_sizes
from projections.durations import project_lateness
from projections.lookups import (
    PEOPLE_VIEW,
    project_grants,
    project_last_uses,
    project_people,
    project_requests,
    project_uses,
    requests_in,
)
from projections.notifications import TOLD, project_notifications
from projections.pending import PENDING, WAITING, pending_in, project_pending
from projections.projection import COUNTS, Change, LateRow, Projection, RunProjection, Seen, StreamState, UsesProjection
from projections.sessions import LATEST_VIEW, OUTCOMES_VIEW, project_sessions
from projections.settled import ViewPlace, add_counts

_OF_EVENTS: Final[Mapping[type, tuple[Projection, ...]]] = {
    Granted: (project_grants,),
    Replied: (project_people, project_answers),
    Notification: (project_notifications,),
    Expired: (project_lateness,),
    DeadlineMoved: (project_lateness,),
}
"""Projections that only events of one type concern."""

_OF_USES: Final[tuple[UsesProjection, ...]] = (project_uses, project_last_uses)

_ROWS_OF_RUNS: Final[tuple[RunProjection, ...]] = (project_sessions,)
_COUNTS_OF_RUNS: Final[tuple[RunProjection, ...]] = (project_sizes,)

FIXED: Final = (
    *(SNAPSHOTS_VIEW, SKIPPED, PENDING, APPROVED, CHECKPOINTS_VIEW, SESSIONS_VIEW, OUTCOMES_VIEW, LATEST_VIEW),
    *(REQUESTS_VIEW, GRANTS_VIEW, PEOPLE_VIEW, USES_VIEW, USED_VIEW, COUNTS, TOLD, STANDING, WAITING),
)
"""Every view. A partition has no other one."""

_PLACES: Final = frozenset((LATEST_VIEW, WAITING))
"""The views of places that are taken and left again."""


def changes_of(key: StreamKey, seen: Seen, *, new: bool = False) -> list[Change]:
    """Return the changes of one event in all views that do not depend on the state alone.

    Of a stream that is `new` to the views the rows of requests and grants are made once, of the state at the end.
    """
    before, after, kind = seen.before, seen.after, type(seen.recorded.event)
    changes: list[Change] = []
    for project in _OF_EVENTS.get(kind, ()):
        changes += project(key, seen)
    if seen.now is not None and isinstance(after, SessionState) and (behind := grants_behind(after, seen.now)):
        for uses in _OF_USES:
            changes += uses(after, seen.now.at_ms, behind)
    if new:
        return changes
    if kind is Asked:
        changes += project_requests(key, seen)
    if isinstance(after, WITHOUT_GRANTS) or isinstance(before, WITHOUT_GRANTS):
        return changes
    if before.grants is not after.grants or kind is SessionClosed:
        changes += project_approved(key, seen)
    if isinstance(before, SessionState) and isinstance(after, SessionState) and before.pending is not after.pending:
        changes += project_pending(key, seen)
    return changes


def size_of(change: Change) -> int:
    """Return the size of a change in bytes; that of a late row is not known yet."""
    return len(change.field) + (len(change.value) if isinstance(change.value, bytes) else 0)


class Changes:
    """Merged changes of a run of events of one stream: the last one of a field wins, counts are summed.

    `first` is the state before the run. Nothing of a stream that is `new` to the views has to be removed from them.
    """

    def __init__(self, key: StreamKey, first: StreamState, *, new: bool = False) -> None:
        self._key = key
        self._first = self._last = first
        self._new = new
        self._rows: dict[ViewPlace, Change] = {}
        self._counts: dict[ViewPlace, int] = {}
        self._taken: set[ViewPlace] = set()
        self.size_bytes = 0

    def take(self, seen: Seen) -> None:
        """Add the next event of the run."""
        self._last = seen.after
        if seen.was is not None:
            # An allow that was reversed before it was returned to anybody is not counted; its fields are there.
            add_counts(self._counts, self._key, (seen.was,), 0 if self._new else -1)
        if seen.now is not None and not self._new:
            add_counts(self._counts, self._key, (seen.now,))
        if changes := changes_of(self._key, seen, new=self._new):
            self.add(changes)

    def add(self, changes: Iterable[Change]) -> None:
        for change in changes:
            place = (change.view, change.field)
            if change.kind == "count":
                assert isinstance(change.value, int)
                self._counts[place] = self._counts.get(place, 0) + change.value
                continue
            known = self._rows.get(place)
            if change.value is None and place in self._taken:
                # A place that was taken and left in one step was nobody's before.
                self._taken.discard(place)
                self.size_bytes -= size_of(self._rows.pop(place))
                continue
            if change.view in _PLACES and known is None and change.value is not None:
                self._taken.add(place)
            self._rows[place] = change
            self.size_bytes += size_of(change) - (0 if known is None else size_of(known))

    def rows(self) -> list[ViewWrite]:
        """Return the changes but for the counts."""
        rows = [_made(change) for change in self._rows.values()]
        rows += self._of_run(_ROWS_OF_RUNS)
        if not self._new:
            return rows
        return [row for row in (*rows, *self._of_state()) if row.value is not None]

    def writes(self) -> list[ViewWrite]:
        """Return all changes, counts last."""
        return writes_of([self])

    def count(self, counts: dict[ViewPlace, int]) -> None:
        """Add the counts by view and field."""
        if self._new and isinstance(self._last, SessionState):
            add_counts(counts, self._key, self._last.settled.values())
        for place, value in self._counts.items():
            counts[place] = counts.get(place, 0) + value
        for write in self._of_run(_COUNTS_OF_RUNS):
            assert isinstance(write.value, int)
            counts[write.view, write.field] = counts.get((write.view, write.field), 0) + write.value

    def _of_run(self, projections: Iterable[RunProjection]) -> Iterator[ViewWrite]:
        if self._last is not self._first:
            for project in projections:
                yield from project(self._key, self._first, self._last)

    def _of_state(self) -> Iterator[ViewWrite]:
        if not isinstance(self._last, WITHOUT_GRANTS):
            yield from approved_in(self._key, self._last)
        if isinstance(self._last, SessionState):
            yield from pending_in(self._key, self._last)
            yield from requests_in(self._key, self._last)


def _made(change: Change) -> ViewWrite:
    return change.write() if isinstance(change, LateRow) else change


def writes_of(runs: Sequence[Changes]) -> list[ViewWrite]:
    """Return the changes of runs of streams of one partition.

    Counts come last: if the server refuses in the middle, repeating the changes before them is harmless.
    """
    writes: list[ViewWrite] = []
    counts: dict[ViewPlace, int] = {}
    for changes in runs:
        writes += changes.rows()
        changes.count(counts)
    writes += (ViewWrite(view, field, value, "count") for (view, field), value in counts.items())
    return writes
