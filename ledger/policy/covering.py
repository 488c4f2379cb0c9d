"""Whether one rule is about everything that another is about, and which of the two decides. Pure.

Both answers are on the safe side of what can be shown from the patterns alone: where it is not sure, rules do not
cover each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.policy.listing import TOOL_RULES, WHOLE, Listed
from ledger.policy.model import Verdict
from ledger.policy.toolrules.names import names_tool
from ledger.policy.wildcard import compile_normalised

LAST_MATCH: Final = ("opencode", "brutus")
_STRICTNESS: Final = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
_SHELLS: Final = ("bash", "Bash", "shell")


def covers(dialect: str, wide: Listed, narrow: Listed) -> bool:
    """Whether `wide` matches whatever `narrow` matches."""
    return _names(dialect, wide, narrow) and _pattern_covers(dialect, wide, narrow)


def _names(dialect: str, wide: Listed, narrow: Listed) -> bool:
    if dialect in LAST_MATCH:
        return _wild_covers(wide.permission, narrow.permission)
    if dialect in TOOL_RULES and wide.pattern == WHOLE:
        return wide.permission == narrow.permission or names_tool(wide.permission, narrow.permission)
    return wide.permission == narrow.permission


def _pattern_covers(dialect: str, wide: Listed, narrow: Listed) -> bool:
    if wide.pattern in (WHOLE, narrow.pattern):
        return True
    if dialect in LAST_MATCH or wide.permission in _SHELLS:
        return _wild_covers(_wild(wide.pattern), _wild(narrow.pattern))
    return False


def _wild(pattern: str) -> str:
    """`git push:*` is `git push` with or without more words."""
    return pattern.removesuffix(":*") + " *" if pattern.endswith(":*") else pattern


def _wild_covers(wide: str, narrow: str) -> bool:
    """A `?` of the wide side could stand for a `*` of the narrow one, so a pattern with it covers only itself."""
    if wide == narrow:
        return True
    if "?" in wide:
        return False
    matches = compile_normalised(wide)
    return matches(narrow) and (not narrow.endswith(" *") or matches(narrow.removesuffix(" *")))


def decides_before(dialect: str, rules: Sequence[Listed], one: int, other: int) -> bool:
    """Whether the rule at `one` decides where the rules at both places match; of two equals the first stays."""
    first, second = rules[one], rules[other]
    if dialect in LAST_MATCH:
        return one > other
    if dialect == "betcode" and (first.pattern == WHOLE) is not (second.pattern == WHOLE):
        return second.pattern == WHOLE
    if first.action is second.action:
        return one < other or not _same(first, second)
    return _STRICTNESS[first.action] > _STRICTNESS[second.action]


def _same(first: Listed, second: Listed) -> bool:
    return (first.permission, first.pattern) == (second.permission, second.pattern)


def lifts(dialect: str, rules: Sequence[Listed], allow: int, deny: int) -> bool:
    """Whether the allow at one place takes a part out of the wider deny at the other."""
    inside = covers(dialect, rules[deny], rules[allow]) and not covers(dialect, rules[allow], rules[deny])
    return inside and decides_before(dialect, rules, allow, deny)
