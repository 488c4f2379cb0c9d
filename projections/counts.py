"""View `counts`: all numbers that metrics and summaries show, added up over the streams of a partition.

They change in the same step as the other views of a stream, so each event counts once, whatever crashes or is repeated.
The first part of a field's name says what is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from ledger.core.events import Replied
from ledger.log.places import field_of
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.values import ViewWrite
from projections.projection import COUNTS, DecisionLabel, Seen, StreamState, counted

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
