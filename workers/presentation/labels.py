"""Words of a request that every face has alike: the answer page, the card, the terminal and the messages.

`inbox/static/js/labels.js` has those of the card, and the service worker those of its messages; a test compares them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from ledger.core.events import Outcome
from ledger.core.policy import EFFECTS as ALL_EFFECTS
from ledger.core.policy import CallEffect, Evaluation, ReplyKind, counted_effect

if TYPE_CHECKING:
    from ledger.policy.shell.facts import DangerKind
    from ledger.session.would_run.description import Description

ASKED_BY: Final = "asked by"
CALLS_ITSELF: Final = "calls itself"
WHY: Final = "why"
ASKED_BECAUSE: Final = "asked because"
"""The label of the reason for which a person is asked, where `why` would read as the reason of the outcome."""
DEMANDED: Final = "demanded"
APPROVED: Final = "approved"
FOLDER: Final = "folder"
TIME_LEFT: Final = "time left"
PENDING_AGAIN: Final = "pending again"

NO_DEADLINE: Final = "no deadline"
DEADLINE_PASSED: Final = "deadline passed"
DANGER: Final = "danger"
WOULD_ALLOW: Final = "an `always` would allow"
SUGGESTED: Final = "suggested by the agent, but of no use"
STILL_ASKS: Final = "the next such call will still ask"
ONLY_ONCE: Final = "this can only be allowed once"
WAITS_FOR: Final = "waits for"

REACHES: Final = {"exact": "exactly this", "kind": "this kind", "all": "more"}
"""Words for the reach of an offered grant."""

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


EFFECTS: Final[Mapping[CallEffect, str]] = {
    "reads": "reads",
    "changes_here": "changes files here",
    "changes_elsewhere": "changes something elsewhere",
    "irreversible": "cannot be undone",
}
"""How far a call can be taken back, which `inbox/static/js/labels.js` has too."""


EFFECT: Final = "effect"
SHORT_EFFECTS: Final[Mapping[CallEffect, tuple[str, str]]] = {
    "reads": ("reads", "green"),
    "changes_here": ("here", "cyan"),
    "changes_elsewhere": ("elsewhere", "yellow"),
    "irreversible": ("no-undo", "bold red"),
}
"""The same in a word for the row of a terminal, with its style there."""


def effect_words(evaluation: Evaluation | None) -> str:
    """Return how far a call can be taken back, in words; where that is not recorded, the worst."""
    return EFFECTS[counted_effect(evaluation)]


DANGERS: Final[Mapping[DangerKind, str]] = {
    "runs-downloaded": "runs downloaded code",
    "privileges": "other rights",
    "deletes": "deletes",
    "secrets": "secrets",
    "outside": "outside the folder",
    "unread": "not understood",
    "network": "network",
    "more": "more",
}
"""Labels of the kinds, which `inbox/static/js/labels.js` has too."""


GRAVE: Final[frozenset[DangerKind]] = frozenset({"runs-downloaded", "privileges", "deletes", "secrets"})
"""The kinds for which a person may want a message in their quiet hours, and that come first in the inbox."""


def danger_rank(kinds: Collection[DangerKind], evaluation: Evaluation | None = None) -> int:
    """Return the place of a request in the inbox: the worst effect first, of these a grave danger, then another, then none.

    `inbox/static/js/effects.js` sorts in the same way.
    """
    milder = list(reversed(ALL_EFFECTS)).index(counted_effect(evaluation))
    danger = 0 if not GRAVE.isdisjoint(kinds) else 1 if kinds else 2
    return 3 * milder + danger


def danger_kinds(description: Description) -> str:
    """Return the distinct kinds of dangers in words, the gravest first; an empty text without a known danger."""
    return ", ".join(dict.fromkeys(DANGERS[one.kind] for one in description.dangers if one.kind != "more"))
