"""Which events somebody acts on: where the settings demand it (`Durability`), these are waited for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.core.events import Asked, Event, Granted, Reopened, Replied, Revoked
from ledger.core.policy import Verdict


def any_binding(events: Iterable[Event]) -> bool:
    """Whether one of them lets a tool call run, now or later, or ends what did.

    A reject or an expiry that a failover loses is no harm: the request is pending again, and nothing was allowed. A
    lost revoke is: its grant would be back.
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
