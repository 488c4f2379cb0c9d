"""Histograms in the view `counts`: of the time from ask to outcome, and of the lateness of expiries.

Each is stored as counts by bucket and a sum in ms for each partition; their total is one histogram, in every process.
Deadlines: `betcode.md` "Permission Timeout Handling".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from ledger.core.events import DeadlineMoved, Expired
from ledger.log.places import field_of
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.values import ViewWrite
from projections.projection import COUNTS, Seen, counted

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
