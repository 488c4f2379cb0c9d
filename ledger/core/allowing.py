"""The events that let a call run: those that a freeze stops, and those that need confirmed replication (`Durability`). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ledger.core.codec import NewerEvent
from ledger.core.events import (
    Agreed,
    Asked,
    Claimed,
    Event,
    Frozen,
    Granted,
    HoldLifted,
    HoldPlaced,
    Reopened,
    Replied,
    Revoked,
    ToolFinished,
    Unfrozen,
    UseTaken,
)
from ledger.core.policy import Verdict


def any_binding(events: Iterable[Event]) -> bool:
    """Return whether an event lets a tool call run, now or later, or ends such a permission.

    Losing a reject or an expiry in a failover is harmless: the request is pending again, and nothing was allowed.
    Losing a revoke or a use is not: the grant would allow more than it should. Nor is losing a claim or the end of its run: the call
    could be claimed again. Nor is losing a freeze, or a legal hold: what it keeps could be redacted.
    """
    return any(_is_binding(event) for event in events)


def _is_binding(event: Event) -> bool:
    match event:
        case Granted() | Revoked() | Claimed() | UseTaken():
            return True
        case Frozen() | Unfrozen() | HoldPlaced() | HoldLifted():
            return True
        case ToolFinished():
            return event.claim_id is not None
        case Replied():
            return event.outcome == "allowed"
        case Asked() | Reopened():
            return event.verdict is Verdict.ALLOW
        case _:
            return False


def any_allowing(events: Iterable[Event | NewerEvent]) -> bool:
    """Return whether an event allows a call, now or later, or claims one."""
    for event in events:
        allows = _ALLOWS.get(type(event))
        if allows is not None and allows(event):
            return True
    return False


def _always(event: Event) -> bool:
    return True


def _by_verdict(event: Asked | Reopened) -> bool:
    return event.verdict is Verdict.ALLOW


def _by_answer(event: Replied) -> bool:
    return event.outcome == "allowed" or bool(event.grants)


def _by_grant(event: Granted) -> bool:
    """Return whether a grant is made here; that of an answer in its project's stream was allowed by the answer."""
    return event.scope == "session" or event.request_id is None


_ALLOWS: Final[Mapping[type, Callable[[Any], bool]]] = {
    Agreed: _always,
    Asked: _by_verdict,
    Claimed: _always,
    Reopened: _by_verdict,
    Replied: _by_answer,
    Granted: _by_grant,
}
