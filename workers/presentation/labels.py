"""Words of a request that every face has alike: the answer page, the card, the terminal and the messages.

`inbox/static/js/labels.js` has those of the card, and the service worker those of its messages; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.core.events import Outcome
from ledger.core.policy import ReplyKind

ASKED_BY: Final = "asked by"
CALLS_ITSELF: Final = "calls itself"
WHY: Final = "why"
DEMANDED: Final = "demanded"
APPROVED: Final = "approved"
FOLDER: Final = "folder"
TIME_LEFT: Final = "time left"
PENDING_AGAIN: Final = "pending again"

NO_DEADLINE: Final = "no deadline"
DEADLINE_PASSED: Final = "deadline passed"
DANGER: Final = "danger"
STILL_ASKS: Final = "the next such call will still ask"
ONLY_ONCE: Final = "this can only be allowed once"
WAITS_FOR: Final = "waits for"

ANSWERS: Final[Mapping[ReplyKind, str]] = {
    "once": "Allow once",
    "session": "Allow in this session",
    "always": "Always allow",
    "reject": "Reject",
}
"""Labels of the answers."""

OUTCOMES: Final[Mapping[Outcome, str]] = {
    "allowed": "Allowed",
    "denied": "Denied",
    "rejected": "Rejected",
    "corrected": "Rejected with instructions",
    "expired": "Expired",
    "cancelled": "Cancelled",
}
"""The first words of an outcome."""

WAITING: Final = "Still waiting"
NOBODY_ANSWERED: Final = "nobody answered in time"
UNFROZEN: Final = "by the rules when a freeze ended"
ALTHOUGH: Final = "by the current rules, although"

APPROVE: Final = "Approve"
"""The label of a yes to a request that several people must approve, with its number: `Approve (2 of 3)`."""


def approve_label(given: int, needed: int) -> str:
    """Return the label of the next yes when `given` of `needed` people have approved."""
    return f"{APPROVE} ({min(given + 1, needed)} of {needed})"


def sentence(words: str) -> str:
    """Return words with a capital at their beginning, as a label or the beginning of a line."""
    return words[:1].upper() + words[1:]
