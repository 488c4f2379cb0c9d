"""The events that allow something, which a freeze stops. Every append declares itself by this one function. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ledger.core.codec import NewerEvent
from ledger.core.events import Agreed, Asked, Claimed, Event, Granted, Reopened, Replied
from ledger.core.policy import Verdict


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
