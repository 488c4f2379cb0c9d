"""The outcomes of requests for statistics: each ask counts once, even if it is judged again later."""

from __future__ import annotations

from typing import Final, Literal

from ledger.core.grants import Recorded
from ledger.session.state import SessionState, Settled
from projections.projection import StreamState

DecisionLabel = Literal["auto_allow", "auto_deny", "user_allow", "user_deny", "timeout", "cancelled"]

DECISIONS: Final[tuple[DecisionLabel, ...]] = (
    "auto_allow",
    "auto_deny",
    "user_allow",
    "user_deny",
    "timeout",
    "cancelled",
)
"""The values of the label `decision` of CONTRACT's metric."""


def decision_of(settled: Settled) -> DecisionLabel:
    """Return the decision label: by rules (auto), by a person (user, cascades included), or by timeout."""
    match settled.outcome:
        case "allowed":
            return "auto_allow" if settled.reply is None or _by_rules(settled) else "user_allow"
        case "denied":
            return "auto_deny"
        case "rejected" | "corrected":
            return "user_deny"
        case "expired":
            return "timeout"
        case "cancelled":
            return "cancelled"


def _by_rules(settled: Settled) -> bool:
    """Return whether the end of a freeze let a request go, which rules or grants allowed."""
    return settled.cause is not None and settled.cause.kind == "unfrozen"


def settled_change(
    before: StreamState, recorded: Recorded, after: StreamState
) -> tuple[Settled | None, Settled | None]:
    """Return how the request of an event was settled before and after it; None twice if that is unchanged."""
    request_id = getattr(recorded.event, "request_id", None)
    if not isinstance(before, SessionState) or not isinstance(after, SessionState) or not isinstance(request_id, str):
        return None, None
    was, now = before.settled.get(request_id), after.settled.get(request_id)
    return (None, None) if was is now else (was, now)
