"""Counts of settled requests, in the views `counts` and `outcomes`.

A count of a request depends only on how it is settled. So the counts of a run are those at its end without those at its
beginning, and those of a whole history are those of its last state.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

from ledger.core.events import Outcome
from ledger.log.places import field_of
from ledger.session.state import Settled
from ledger.stores.port import StreamKey
from projections.counts import decision_field
from projections.durations import DURATION_BUCKETS_MS, bucket_field, bucket_of, sum_field
from projections.projection import COUNTS, DecisionLabel, decision_of
from projections.sessions import OUTCOMES_VIEW

ViewPlace: TypeAlias = tuple[str, str]
"""A view, and a field in it."""


def add_counts(counts: dict[ViewPlace, int], key: StreamKey, settled: Iterable[Settled], by: int = 1) -> None:
    """Add the counts of requests of a session, each so many times."""
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
