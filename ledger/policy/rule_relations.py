"""Relations between two rules: coverage, precedence, redundancy. Pure.

All answers are conservative: where the patterns alone do not show it, one rule does not cover the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.policy import STRICTNESS, Verdict
from ledger.policy.dialect import Dialect
from ledger.policy.matching.wildcard import wildcard_covers
from ledger.policy.rule_list import WHOLE, ListedRule

_SHELLS: Final = ("bash", "Bash", "shell")


def covers(dialect: Dialect, wide: ListedRule, narrow: ListedRule) -> bool:
    """Return whether `wide` matches everything that `narrow` matches."""
    return dialect.notation.names(wide, narrow) and _pattern_covers(dialect, wide, narrow)


def _pattern_covers(dialect: Dialect, wide: ListedRule, narrow: ListedRule) -> bool:
    if wide.pattern in (WHOLE, narrow.pattern):
        return True
    if dialect.language.last_match:
        return wildcard_covers(wide.pattern, narrow.pattern)
    if wide.permission not in _SHELLS or dialect.notation.joins_conditions(narrow.pattern):
        return False
    return wildcard_covers(dialect.notation.as_wildcard(wide), dialect.notation.as_wildcard(narrow))


def decides_before(dialect: Dialect, rules: Sequence[ListedRule], one: int, other: int) -> bool:
    """Return whether the rule at `one` decides where both rules match; of two equal rules the first one does."""
    first, second = rules[one], rules[other]
    if dialect.language.last_match:
        return one > other
    decided = dialect.notation.decides_before(first, second)
    if decided is not None:
        return decided
    if first.action is second.action:
        return one < other or not _same(first, second)
    return STRICTNESS[first.action] > STRICTNESS[second.action]


def _same(first: ListedRule, second: ListedRule) -> bool:
    return (first.permission, first.pattern) == (second.permission, second.pattern)


def is_redundant(dialect: Dialect, rule: ListedRule, other: ListedRule) -> bool:
    """Return whether removing `rule` changes nothing, if `other` covers it and decides the same before it.

    A rule beside one for the whole tool does more in the hardened profile, and remains if that one is removed. A rule
    of another layer stays in force without that layer. A deny or an ask also keeps similar commands from being allowed,
    and a rule without wildcard allows options that make a command dangerous. So only an allow with a wildcard, or a
    rule that is written twice, can be redundant.
    """
    if rule.ref.layer != other.ref.layer or rule.ref.file != other.ref.file:
        return False
    if _same(rule, other):
        return rule.final is other.final
    if rule.action is not Verdict.ALLOW or other.pattern == WHOLE:
        return False
    return dialect.language.last_match or "*" in rule.pattern


def lifts(dialect: Dialect, rules: Sequence[ListedRule], allow: int, deny: int) -> bool:
    """Return whether the allow at one index makes an exception to the wider deny at the other."""
    inside = covers(dialect, rules[deny], rules[allow]) and not covers(dialect, rules[allow], rules[deny])
    return inside and decides_before(dialect, rules, allow, deny)
