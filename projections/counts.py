"""View `counts`: all numbers that metrics and summaries show, added up over the streams of a partition.

They change in the same step as the other views of a stream, so each event counts once, whatever crashes or is repeated.
The first part of a field's name says what is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.grants import Recorded
from ledger.log.places import field_of
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.outcomes import decision_of, settled_change
from projections.projection import COUNTS, StreamState, counted

DECISION: Final = "decision"
"""Requests by CONTRACT's metric labels."""

PENDING_COUNT: Final = "pending"
STREAMS_COUNT: Final = "streams"
EVENTS_COUNT: Final = "events"


def project_counts(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> Iterator[ViewWrite]:
    yield counted(COUNTS, EVENTS_COUNT, 1)
    if recorded.version == 1:
        yield counted(COUNTS, STREAMS_COUNT, 1)
    if isinstance(before, SessionState) and isinstance(after, SessionState):
        more = len(after.pending) - len(before.pending)
        if more:
            yield counted(COUNTS, PENDING_COUNT, more)
    was, now = settled_change(before, recorded, after)
    if was is not None:
        # An allow that a change of the project's grants reversed before it was returned to anybody.
        yield counted(COUNTS, field_of(DECISION, decision_of(was)), -1)
    if now is not None:
        yield counted(COUNTS, field_of(DECISION, decision_of(now)), 1)
