"""A session's events as lines for a terminal."""

from __future__ import annotations

from typing import NamedTuple

from ledger.core.grants import Recorded
from ledger.log.history import LoggedEvent
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from projections.sentences import sentence_of
from workers.presentation.text import revealed


class TimelineLine(NamedTuple):
    """The actor, and the event's sentence without the actor at its beginning, revealed."""

    actor: str
    text: str


class TimelineFold:
    """A fold of a session that takes its events in order and returns a line for each."""

    def __init__(self, session_id: str) -> None:
        self.state = SessionState(session_id=session_id)

    def line(self, logged: LoggedEvent, limit_chars: int | None = None) -> TimelineLine:
        """Add the next event and return its line, with each quoted text cut to `limit_chars`."""
        recorded = Recorded(logged.event, logged.actor, logged.ms, logged.version, logged.event_id, logged.redacted)
        before, self.state = self.state, evolve(self.state, recorded)
        name, maker = logged.actor.name, logged.actor.made_by
        told = name if maker is None else f"{name} (token made by {maker})"
        return TimelineLine(told, revealed(sentence_of(recorded, before, limit_chars).removeprefix(f"{name} ")))
