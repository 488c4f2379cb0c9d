"""View `counts`: all numbers that metrics and summaries show, added up over the streams of a partition.

They change in the same step as the other views of a stream, so each event counts once, whatever crashes or is repeated.
The first part of a field's name says what is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from ledger.log.places import field_of
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.outcomes import DecisionLabel
from projections.projection import COUNTS, StreamState, counted

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
