"""The events that need confirmed replication when `Durability` asks for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.core.events import (
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
