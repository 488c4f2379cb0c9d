"""The story, line by line, from the events of the log alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ledger.core.durations import spell_duration
from ledger.core.events import (
    Asked,
    ClientConnected,
    ClientDisconnected,
    Expired,
    Replied,
    SessionClosed,
    SessionOpened,
)
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.log.history import LoggedEvent
from ledger.session import SessionState, evolve
from ledger.session.state import Request
from ledger.session.would_run import quoted, would_run
from workers.demo.screen import ScreenLine


class Story:
    """Folds the session as its events come, so that each line can use the state before it."""

    def __init__(self, session_id: str) -> None:
        self.state = SessionState(session_id=session_id)
        self.events = 0
        self._began_ms: int | None = None

    def tell(self, logged: LoggedEvent) -> ScreenLine | None:
        """Return the event as a line; None for an event without interest to a newcomer."""
        before = self.state
        recorded = Recorded(logged.event, logged.actor, logged.ms, logged.version, logged.event_id)
        self.state = evolve(before, recorded)
        self.events += 1
        if self._began_ms is None:
            self._began_ms = logged.ms
        words: Callable[[Recorded, SessionState, SessionState], tuple[str, ...]] | None = _WORDS.get(type(logged.event))
        if words is None:
            return None
        return ScreenLine(logged.ms - self._began_ms, *words(recorded, before, self.state))


def short_name(permission: str) -> str:
    """Return a short name of a permission."""
    return "directory" if permission == "external_directory" else permission


def call_of(request: Request) -> str:
    return " && ".join(would_run(request).texts)


def _opened(recorded: Recorded, before: SessionState, after: SessionState) -> tuple[str, ...]:
    assert isinstance(recorded.event, SessionOpened)
    rules = sum(len(layer.rules) for layer in after.policy.layers) if after.policy else 0
    return recorded.actor.name, "opens", f"session {after.session_id}", "", f"project {after.project}, {rules} rules"


def _asked(recorded: Recorded, before: SessionState, after: SessionState) -> tuple[str, ...]:
    event: Any = recorded.event
    request = after.find(event.request_id)
    assert request is not None
    call = (recorded.actor.name, short_name(event.permission), call_of(request))
    if event.verdict is Verdict.ALLOW:
        return (*call, "allowed", _why_allowed(event, before))
    rule = f"rule {request.evaluation.rules[-1].text}" if request.evaluation and request.evaluation.rules else "no rule"
    if event.verdict is Verdict.DENY:
        return (*call, "denied", rule)
    there = ", ".join(one.name for one in event.present)
    span = spell_duration(event.duration_ms)
    return (*call, "waits", f"{span} for {there}; {rule}" if there else f"nobody is there: for {span}; {rule}")


def _why_allowed(event: Asked, before: SessionState) -> str:
    if event.grants:
        grant = before.grants.get(event.grants[0])
        return f"{grant.by.name}'s grant of {grant.permission} `{grant.pattern}`" if grant else "a grant of the project"
    evaluation = event.detail.evaluation if event.detail else None
    return f"rule {evaluation.rules[-1].text}" if evaluation and evaluation.rules else "by default"


def _replied(recorded: Recorded, before: SessionState, after: SessionState) -> tuple[str, ...]:
    event: Any = recorded.event
    request = before.pending[event.request_id]
    line = (recorded.actor.name, event.reply, call_of(request), event.outcome)
    if event.cause is not None:
        first = after.settled[event.cause.request_id]
        return (*line, f"cascade of `{call_of(first.request)}`")
    detail = event.detail
    if event.grants and detail:
        return (*line, f"from now on {request.permission} {quoted(detail.patterns)} in this {event.scope}")
    return (*line, f"“{detail.message}”" if detail and detail.message else "")


def _expired(recorded: Recorded, before: SessionState, after: SessionState) -> tuple[str, ...]:
    event: Any = recorded.event
    request = before.pending[event.request_id]
    late_ms = recorded.ms - (request.deadline_ms or recorded.ms)
    why = f"nobody answered in {spell_duration(event.duration_ms)} (written {late_ms} ms later)"
    return "(expiry)", short_name(request.permission), call_of(request), "expired", why


def _came(recorded: Recorded, before: SessionState, after: SessionState) -> tuple[str, ...]:
    return recorded.actor.name, "connects"


def _left(recorded: Recorded, before: SessionState, after: SessionState) -> tuple[str, ...]:
    return recorded.actor.name, "leaves"


def _closed(recorded: Recorded, before: SessionState, after: SessionState) -> tuple[str, ...]:
    return recorded.actor.name, "closes", f"session {after.session_id}"


_WORDS: Final[dict[type, Callable[[Recorded, SessionState, SessionState], tuple[str, ...]]]] = {
    SessionOpened: _opened,
    ClientConnected: _came,
    ClientDisconnected: _left,
    Asked: _asked,
    Replied: _replied,
    Expired: _expired,
    SessionClosed: _closed,
}
"""The text of each event type. Input locks and finished calls are in the log, but not in the story."""
