"""Counts of settled requests, in the views `counts` and `outcomes`.

A count of a request depends only on how it is settled. So the counts of a run are those at its end without those at its
beginning, and those of a whole history are those of its last state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ledger.core.events import Outcome
from ledger.log.divided import OUTCOMES_VIEW
from ledger.session.state import Settled
from ledger.stores.port import StreamKey
from projections.counts import decision_field
from projections.durations import DURATION_BUCKETS_MS, bucket_field, bucket_of, sum_field
from projections.outcomes import DecisionLabel, decision_of
from projections.projection import COUNTS
from projections.sessions import outcome_field

ViewPlace: TypeAlias = tuple[str, str]
"""A view, and a field in it."""


def counts_of(key: StreamKey, settled: Iterable[Settled]) -> dict[ViewPlace, int]:
    """Return the counts of requests of a session."""
    alike: dict[tuple[Outcome, DecisionLabel, str], int] = {}
    waited: dict[DecisionLabel, int] = {}
    for one in settled:
        decision, waited_ms = decision_of(one), max(one.at_ms - one.request.asked_ms, 0)
        kind = (one.outcome, decision, bucket_of(waited_ms, DURATION_BUCKETS_MS))
        alike[kind] = alike.get(kind, 0) + 1
        waited[decision] = waited.get(decision, 0) + waited_ms
    view = OUTCOMES_VIEW.of(key.id)
    counts = {(COUNTS, sum_field(decision)): waited_ms for decision, waited_ms in waited.items()}
    for (outcome, decision, bucket), count in alike.items():
        for place in (
            (COUNTS, decision_field(decision)),
            (view, outcome_field(key.id, outcome)),
            (COUNTS, bucket_field(decision, bucket)),
        ):
            counts[place] = counts.get(place, 0) + count
    return counts
