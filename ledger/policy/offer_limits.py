"""Entries of an `always` that stay within a dialect's offer for a call. Pure.

Conservative: an entry counts as narrower only if its pattern shows it. Only the dialects whose grants are wildcards
over texts (`opencode`, `brutus`) can show it; in every other dialect an entry must be one of the offered ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ledger.core.policy import RuleRef, Verdict
from ledger.policy.dialect import Dialect
from ledger.policy.rule_list import ListedRule
from ledger.policy.rule_relations import covers

_UNSURE: Final = ("\n", "\r", "\\", ":*")
"""Texts that the dialects read differently: a line end, another separator, the trailing wildcard of other dialects."""


def within(dialect: Dialect, offered: Sequence[str], entries: Iterable[str]) -> tuple[str, ...]:
    """Return the entries that allow nothing beyond the offered ones, in their order."""
    return tuple(entry for entry in entries if entry in offered or _is_narrower(dialect, offered, entry))


def _is_narrower(dialect: Dialect, offered: Sequence[str], entry: str) -> bool:
    if not dialect.language.last_match or is_unsure(entry):
        return False
    return any(covers(dialect, _rule(wide), _rule(entry)) for wide in offered if not is_unsure(wide))


def is_unsure(pattern: str) -> bool:
    """Return whether the dialects read a pattern differently, so that nothing is proven by it."""
    return any(text in pattern for text in _UNSURE)


def _rule(pattern: str) -> ListedRule:
    return ListedRule("any", pattern, Verdict.ALLOW, RuleRef(pattern))
