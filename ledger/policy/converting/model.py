"""What a conversion gives, and what it says about it."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.policy.listing import ListedRule


class Change(msgspec.Struct, frozen=True):
    """A rule that could not be carried over as it is, and what became of it."""

    rule: ListedRule
    text: str


class Converted(msgspec.Struct, frozen=True):
    """A configuration in the other dialect's form, and what became stricter in it."""

    config: dict[str, Any]
    changes: tuple[Change, ...]
