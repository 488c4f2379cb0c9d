"""The result of a conversion and its reported changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ledger.policy.rule_list import ListedRule

ChangeReporter = Callable[[str], None]
"""A function that records a change of the current rule, given as a sentence."""


class ConversionChange(msgspec.Struct, frozen=True):
    """A rule that could not be converted unchanged, and its replacement in words."""

    rule: ListedRule
    text: str


class Converted(msgspec.Struct, frozen=True):
    """A configuration in the target dialect, and the changes that made it stricter."""

    config: dict[str, Any]
    changes: tuple[ConversionChange, ...]
