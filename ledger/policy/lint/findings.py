"""A lint finding, and helpers that all checks share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from ledger.policy.rule_list import ListedRule

Severity = Literal["error", "warning", "info"]

SHOWN_COUNT: Final = 3
"""Commands and rules named in one finding; the rest are counted."""


class LintFinding(msgspec.Struct, frozen=True):
    """One problem. `line` is 1-based; `fix` is the advice."""

    file: str | None
    line: int | None
    code: str
    severity: Severity
    text: str
    fix: str


def about(rule: ListedRule, code: str, severity: Severity, text: str, fix: str) -> LintFinding:
    """Return a finding at the place of a rule."""
    return LintFinding(rule.ref.file, rule.ref.line, code, severity, text, fix)


def joined(texts: Sequence[str]) -> str:
    """Return the first texts in backticks, and the number of the remaining ones."""
    shown = ", ".join(f"`{text}`" for text in texts[:SHOWN_COUNT])
    more = len(texts) - SHOWN_COUNT
    return f"{shown} and {more} more" if more > 0 else shown
