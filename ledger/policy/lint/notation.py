"""Command rules in the notation of each dialect, for advice that is tested before it is given."""

from __future__ import annotations

from typing import Any, NamedTuple

from ledger.core.policy import Verdict
from ledger.policy.dialect import Dialect


class WrittenRule(NamedTuple):
    """A rule: `text` as a person writes it, and a configuration that contains only this rule."""

    text: str
    config: dict[str, Any]


def written(dialect: Dialect, pattern: str, action: Verdict) -> WrittenRule:
    """Return a dialect's rule for the commands that a pattern matches; a trailing ` *` is optional in them."""
    entry = dialect.family_entry(pattern)
    return WrittenRule(dialect.shown_entry(entry, action), dialect.config([(dialect.shell, entry)], action))
