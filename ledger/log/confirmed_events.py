"""The events that need confirmed replication when `Durability` asks for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.core.events import Asked, Event, Granted, Reopened, Replied, Revoked
from ledger.core.policy import Verdict


def any_binding(events: Iterable[Event]) -> bool:
    """Return whether an event lets a tool call run, now or later, or ends such a permission.

    Losing a reject or an expiry in a failover is harmless: the request is pending again, and nothing was allowed.
    Losing a revoke is not: its grant would be in force again.
    """
    return any(_is_binding(event) for event in events)


def _is_binding(event: Event) -> bool:
    match event:
        case Granted() | Revoked():
            return True
        case Replied():
            return event.outcome == "allowed"
        case Asked() | Reopened():
            return event.verdict is Verdict.ALLOW
        case _:
            return False
