"""The story, line by line, from the events of the log alone."""

from __future__ import annotations

from typing import Final

from ledger.core.events import Asked, Expired, Granted, LockPassed, LockRequested, LockTaken, Replied, ToolFinished
from ledger.core.policy import Verdict
from ledger.log.history import LoggedEvent
from ledger.session.state import SessionState
from workers.demo.screen import ScreenLine
from workers.presentation.timeline import TimelineFold

_UNTOLD: Final = (Granted, LockPassed, LockRequested, LockTaken, ToolFinished)
"""Events without interest to a newcomer, or said by the line before."""

_VERDICTS: Final = {Verdict.ALLOW: "allowed", Verdict.ASK: "waits", Verdict.DENY: "denied"}


class Story:
    """Tells the events of a session as they come."""

    def __init__(self, session_id: str) -> None:
        self.events = 0
        self._fold = TimelineFold(session_id)
        self._began_ms: int | None = None

    @property
    def state(self) -> SessionState:
        return self._fold.state

    def tell(self, logged: LoggedEvent) -> ScreenLine | None:
        """Return the event as a line; None for an event without interest to a newcomer."""
        line = self._fold.line(logged)
        self.events += 1
        if self._began_ms is None:
            self._began_ms = logged.ms
        if isinstance(logged.event, _UNTOLD):
            return None
        return ScreenLine(logged.ms - self._began_ms, line.actor, line.text, _outcome(logged.event))


def _outcome(event: object) -> str:
    match event:
        case Asked():
            return _VERDICTS[event.verdict]
        case Replied():
            return event.outcome
        case Expired():
            return "expired"
        case _:
            return ""
