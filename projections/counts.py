"""View `counts`: all numbers that metrics and summaries show, added up over the streams of a partition.

They change in the same step as the other views of a stream, so each event counts once, whatever crashes or is repeated.
The first part of a field's name says what is counted. A histogram (the time from ask to outcome, the lateness of
expiries) is stored as counts by bucket and a sum in ms for each partition; their total is one histogram, in every
process. Deadlines: `betcode.md` "Permission Timeout Handling".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Final

from ledger.core.event_shapes import Notification
from ledger.core.events import DeadlineMoved, Expired, Replied
from ledger.core.times import DAY_MS
from ledger.log.places import field_of
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import COUNTS, DecisionLabel, Seen, StreamState, counted, listed

DECISION: Final = "decision"
"""Requests by CONTRACT's metric labels."""

PENDING_COUNT: Final = "pending"
STREAMS_COUNT: Final = "streams"
EVENTS_COUNT: Final = "events"


@cache
def decision_field(decision: DecisionLabel) -> str:
    """Return the field that counts the requests with a decision."""
    return field_of(DECISION, decision)


def project_sizes(key: StreamKey, first: StreamState, last: StreamState) -> Iterator[ViewWrite]:
    """Yield the counts of streams, events and pending requests, the last one also where it is unchanged.

    A count that a run leaves as it was is there all the same, as it is where the run was cut.
    """
    yield counted(COUNTS, EVENTS_COUNT, last.version - first.version)
    if first.version == 0:
        yield counted(COUNTS, STREAMS_COUNT, 1)
    if isinstance(first, SessionState) and isinstance(last, SessionState):
        yield counted(COUNTS, PENDING_COUNT, len(last.pending) - len(first.pending))


ANSWER: Final = "answer"
HOUR: Final = "answer_hour"
"""The first parts of the fields' names. Hours are apart: names times hours would be too many fields."""

HOUR_MS: Final = 60 * 60 * 1000
HOURS_COUNT: Final = 24


def project_answers(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    """Answers of people by kind, name and outcome, and apart from that by hour of day (UTC).

    What an answer ends besides its own request is not counted, nor what only an agent's side reported.
    """
    recorded, event = seen.recorded, seen.recorded.event
    if key.kind == "session" and isinstance(event, Replied) and event.cause is None and event.told is None:
        yield counted(COUNTS, field_of(ANSWER, recorded.actor.kind, recorded.actor.name, event.outcome), 1)
        yield counted(COUNTS, field_of(HOUR, str(recorded.ms // HOUR_MS % HOURS_COUNT)), 1)


DURATION: Final = "duration"
"""The first part of the fields' names."""

LATENESS: Final = "lateness"
"""The histogram's name in place of a decision in the fields of the view."""

SUM: Final = "sum"

DURATION_BUCKETS_MS: Final = (
    *(10, 100, 1_000, 5_000, 15_000, 30_000, 60_000, 300_000, 900_000),
    *(3_600_000, 14_400_000, 86_400_000, 259_200_000, 604_800_000),
)
LATENESS_BUCKETS_MS: Final = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 60_000, 600_000, 3_600_000)
"""Inclusive upper bounds in ms; larger values count as `inf`. They never change: stored counts depend on them."""

INFINITE: Final = "inf"


def project_lateness(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    before, recorded = seen.before, seen.recorded
    event = recorded.event
    if isinstance(event, DeadlineMoved) and event.reason is not None:
        return  # extended by a person, before the deadline
    if isinstance(event, Expired | DeadlineMoved) and isinstance(before, SessionState):
        request = before.pending.get(event.request_id)
        if request is not None and request.deadline_ms is not None:
            late_ms = max(recorded.ms - request.deadline_ms, 0)
            yield counted(COUNTS, bucket_field(LATENESS, bucket_of(late_ms, LATENESS_BUCKETS_MS)), 1)
            yield counted(COUNTS, sum_field(LATENESS), late_ms)


@lru_cache(maxsize=256)
def bucket_field(what: str, bucket: str) -> str:
    """Return the field that counts the times in a bucket: of a decision, or LATENESS."""
    return field_of(DURATION, what, bucket)


def sum_field(what: str) -> str:
    """Return the field that adds up these times (ms)."""
    return bucket_field(what, SUM)


def bucket_of(ms: int, buckets: Sequence[int]) -> str:
    """Return the bucket's upper bound in ms, as in the view's field."""
    at = bisect_left(buckets, ms)
    return str(buckets[at]) if at < len(buckets) else INFINITE


NOTIFICATION: Final = "notification"
"""The first part of the names of counts."""

TOLD: Final = "told"

WEBPUSH: Final = "webpush"
"""The service of push messages; that of one device has its id behind a hyphen."""


def project_notifications(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    recorded, event = seen.recorded, seen.recorded.event
    if not isinstance(event, Notification):
        return
    # All devices count as one service: a metric must not grow with people's phones.
    service = WEBPUSH if event.service.startswith(f"{WEBPUSH}-") else event.service
    yield counted(COUNTS, field_of(NOTIFICATION, service, event.result), 1)
    if event.result == "sent" and event.person is not None and event.message_id is not None:
        said = field_of(event.person, event.service, str(recorded.ms // DAY_MS), str(recorded.ms), event.message_id)
        yield listed(TOLD, said)
