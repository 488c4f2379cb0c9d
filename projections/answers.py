"""Answers of people in the view `counts`: by kind, name and outcome, and apart from that by hour of day (UTC).

What an answer ends besides its own request is not counted, nor what only an agent's side reported: its author is the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Replied
from ledger.log.places import field_of
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import COUNTS, Seen, counted

ANSWER: Final = "answer"
HOUR: Final = "answer_hour"
"""The first parts of the fields' names. Hours are apart: names times hours would be too many fields."""

HOUR_MS: Final = 60 * 60 * 1000
HOURS_COUNT: Final = 24


def project_answers(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    recorded, event = seen.recorded, seen.recorded.event
    if key.kind == "session" and isinstance(event, Replied) and event.cause is None and event.told is None:
        yield counted(COUNTS, field_of(ANSWER, recorded.actor.kind, recorded.actor.name, event.outcome), 1)
        yield counted(COUNTS, field_of(HOUR, str(recorded.ms // HOUR_MS % HOURS_COUNT)), 1)
