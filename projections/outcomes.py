"""The outcomes of requests for statistics: each ask counts once, even if it is judged again later."""

from __future__ import annotations

from typing import Final, Literal

from ledger.session.state import Settled

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
