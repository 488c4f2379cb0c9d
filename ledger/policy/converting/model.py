"""The result of a conversion and its reported changes."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.policy.listing import ListedRule


class Change(msgspec.Struct, frozen=True):
    """A rule that could not be converted unchanged, and its replacement in words."""

    rule: ListedRule
    text: str


class Converted(msgspec.Struct, frozen=True):
    """A configuration in the target dialect, and the changes that made it stricter."""

    config: dict[str, Any]
    changes: tuple[Change, ...]
