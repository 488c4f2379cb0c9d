"""The dangers of a request in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ledger.policy.shell.facts import DangerKind
    from ledger.session.would_run.description import Description

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


def danger_rank(kinds: Collection[DangerKind]) -> int:
    """Return the place of a request in the inbox: 0 with a grave danger, 1 with another, 2 without any.

    `inbox/static/js/ordering.js` sorts in the same way.
    """
    if not GRAVE.isdisjoint(kinds):
        return 0
    return 1 if kinds else 2


def danger_kinds(description: Description) -> str:
    """Return the distinct kinds of dangers in words, the gravest first; an empty text without a known danger."""
    return ", ".join(dict.fromkeys(DANGERS[one.kind] for one in description.dangers if one.kind != "more"))
