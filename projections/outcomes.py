"""How a request ended, as statistics count it: each ask once, whatever the log says of it later."""

from __future__ import annotations

from typing import Final, Literal

from ledger.core.grants import Recorded
from ledger.session.state import SessionState, Settled
from projections.projection import State

Decision = Literal["auto_allow", "auto_deny", "user_allow", "user_deny", "timeout", "cancelled"]

DECISIONS: Final[tuple[Decision, ...]] = (
    "auto_allow",
    "auto_deny",
    "user_allow",
    "user_deny",
    "timeout",
    "cancelled",
)
"""The label `decision` of CONTRACT's metric."""


def decision_of(settled: Settled) -> Decision:
    """Whose decision it was: the rules' (auto), a person's (user; also what followed from an answer), or time's."""
    match settled.outcome:
        case "allowed":
            return "auto_allow" if settled.reply is None else "user_allow"
        case "denied":
            return "auto_deny"
        case "rejected" | "corrected":
            return "user_deny"
        case "expired":
            return "timeout"
        case "cancelled":
            return "cancelled"


def settled_change(before: State, recorded: Recorded, after: State) -> tuple[Settled | None, Settled | None]:
    """How the request that an event is about was settled before it and after it; twice None when that is the same."""
    request_id = getattr(recorded.event, "request_id", None)
    if not isinstance(before, SessionState) or not isinstance(after, SessionState) or not isinstance(request_id, str):
        return None, None
    was, now = before.settled.get(request_id), after.settled.get(request_id)
    return (None, None) if was is now else (was, now)
