"""All views, and the changes that one stream's events make in them: of pending requests, grants, and settled requests.

`pending` and `approved` have one row for each request or grant (CONTRACT's objects). `waiting` lists the requests, nearest
deadline first: all, those of a project, of an agent's token. One more list is in order of asking: its first field is the
oldest. `standing` lists the grants in order of creation: all, and those of each project with its sessions, and once more
by their ids. These are the grants neither revoked nor redacted, with uses left, whose session is open. An expired one
stays, because no event ends it; readers filter it out. The last use of a grant without a limit is not in its row, which
would change with every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from ledger.access.state import AccessState
from ledger.client.grant_uses import grants_behind
from ledger.client.pending_list import scopes_of
from ledger.client.results import Approved, Pending
from ledger.core.event_shapes import Notification
from ledger.core.events import (
    Asked,
    ClientConnected,
    DeadlineMoved,
    Expired,
    Granted,
    Imported,
    Outcome,
    Redacted,
    Replied,
    Revoked,
    SessionClosed,
    UseTaken,
)
from ledger.core.grants import Recorded, StandingGrant
from ledger.log.places import (
    ALL,
    APPROVED_VIEW,
    STANDING_VIEW,
    WAITING_VIEW,
    GrantPlace,
    WaitingPlace,
    field_of,
    named_of,
    scope_of,
)
from ledger.log.snapshots import SNAPSHOTS_VIEW
from ledger.log.viewed import GRANTS_VIEW, REQUESTS_VIEW, SESSIONS_VIEW, USED_VIEW, USES_VIEW
from ledger.policy.stored_rules import RulesState
from ledger.project import ProjectState
from ledger.session.state import Request, SessionState, Settled
from ledger.stores.port import CHECKPOINTS_VIEW, SKIPPED, StreamKey, ViewWrite
from projections.counts import (
    DURATION_BUCKETS_MS,
    TOLD,
    bucket_field,
    bucket_of,
    decision_field,
    project_answers,
    project_lateness,
    project_notifications,
    project_sizes,
    sum_field,
)
from projections.projection import (
    COUNTS,
    Change,
    DecisionLabel,
    LateRow,
    Projection,
    RunProjection,
    Seen,
    StreamState,
    UsesProjection,
    decision_of,
    listed,
    row,
)
from projections.sessions import (
    LATEST_VIEW,
    OUTCOMES_VIEW,
    PEOPLE_VIEW,
    project_grants,
    project_last_uses,
    project_people,
    project_requests,
    project_sessions,
    project_uses,
    requests_in,
)

ViewPlace: TypeAlias = tuple[str, str]
"""A view, and a field in it."""


def add_counts(counts: dict[ViewPlace, int], key: StreamKey, settled: Iterable[Settled], by: int = 1) -> None:
    """Add the counts of requests of a session, each so many times.

    A count of a request depends only on how it is settled. So the counts of a run are those at its end without those at
    its beginning, and those of a whole history are those of its last state.
    """
    # Most requests of a session are settled alike; their places are made once.
    alike: dict[tuple[DecisionLabel, str, Outcome], tuple[int, int]] = {}
    for one in settled:
        waited_ms = max(one.at_ms - one.request.asked_ms, 0)
        kind = (decision_of(one), bucket_of(waited_ms, DURATION_BUCKETS_MS), one.outcome)
        count, sum_ms = alike.get(kind, (0, 0))
        alike[kind] = (count + 1, sum_ms + waited_ms)
    for (decision, bucket, outcome), (count, sum_ms) in alike.items():
        of_decision, of_bucket, of_time = _places_of(decision, bucket)
        for place in (of_decision, of_bucket, (OUTCOMES_VIEW, field_of(key.id, outcome))):
            counts[place] = counts.get(place, 0) + by * count
        counts[of_time] = counts.get(of_time, 0) + by * sum_ms


@cache
def _places_of(decision: DecisionLabel, bucket: str) -> tuple[ViewPlace, ViewPlace, ViewPlace]:
    """Return where requests with a decision, and with a time in a bucket, are counted, and where the time is added up."""
    return (
        (COUNTS, decision_field(decision)),
        (COUNTS, bucket_field(decision, bucket)),
        (COUNTS, sum_field(decision)),
    )


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
    standing = approved_of(key, state, grant)
    value = None if has_ended else msgspec.json.encode(standing.as_json())
    yield ViewWrite(APPROVED, field_of(key.name, grant.grant_id), value)
    order = GrantPlace(grant.at_ms, grant.grant_id, key.name).order
    lists = (ALL, scope_of("project", standing.project or key.id))
    for field in (*(scope + order for scope in lists), named_of(grant.grant_id, key.name)):
        place = listed(STANDING, field)
        yield replace(place, value=None) if has_ended else place


def _is_closed(state: SessionState | ProjectState) -> bool:
    return isinstance(state, SessionState) and state.closed_ms is not None


def approved_of(key: StreamKey, state: SessionState | ProjectState, grant: StandingGrant) -> Approved:
    """Return a grant of a stream with its session and project."""
    if isinstance(state, SessionState):
        return Approved(grant=grant, session=key.id, project=state.project)
    return Approved(grant=grant, session=grant.session, project=key.id)


PENDING: Final = "pending"
WAITING: Final = WAITING_VIEW


def project_pending(key: StreamKey, seen: Seen) -> Iterator[Change]:
    before, recorded, after = seen.before, seen.recorded, seen.after
    if not isinstance(before, SessionState) or not isinstance(after, SessionState) or before.pending is after.pending:
        return
    touched = _touched(recorded, after)
    for request_id in touched:
        was, now = before.pending.get(request_id), after.pending.get(request_id)
        yield from _moved(_places(before, was), _places(after, now))
        if now is None and was is not None:
            yield row(PENDING, field_of(key.id, request_id), None)
        elif now is not None and was != now:
            change = LateRow(PENDING, field_of(key.id, request_id), Pending(session=key.id, request=now).as_json)
            # Many rows of one event count towards the size of a step, which knows the event's own size alone.
            yield change if len(touched) == 1 else change.write()


def pending_in(key: StreamKey, state: SessionState) -> Iterator[ViewWrite]:
    """Yield the rows of all that is pending in a session."""
    for request_id, request in state.pending.items():
        yield from (listed(WAITING, field) for field in _places(state, request))
        yield row(PENDING, field_of(key.id, request_id), Pending(session=key.id, request=request).as_json())


def _places(state: SessionState, request: Request | None) -> list[str]:
    """Return the fields of a request in `waiting`; none where it is not pending."""
    if request is None:
        return []
    place = WaitingPlace.of_request(state.session_id, request)
    return [*(scope + place.order for scope in scopes_of(state)), place.asked, place.named]


def _moved(old: list[str], new: list[str]) -> Iterator[Change]:
    if old != new:
        yield from (ViewWrite(WAITING, field, None, "sorted") for field in old)
        yield from (listed(WAITING, field) for field in new)


def _touched(recorded: Recorded, after: SessionState) -> list[str]:
    """Return the ids of the requests that an event changes: one, but all pending ones when a client connects or content goes."""
    if isinstance(recorded.event, ClientConnected | Redacted):
        return sorted(after.pending)
    request_id = getattr(recorded.event, "request_id", None)
    return [request_id] if isinstance(request_id, str) else []


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
        rows = [change.write() if isinstance(change, LateRow) else change for change in self._rows.values()]
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
