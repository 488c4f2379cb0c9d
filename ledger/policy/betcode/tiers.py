"""Precedence of rules for one unit: the highest tier that has a match, and in it deny, then ask, then allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ledger.core.policy import RuleRef, Verdict
from ledger.policy.toolrules.names import is_glob, may_allow, names_tool
from ledger.policy.toolrules.rule import ToolRule

TOP_TIER = 2
_STRICTEST_FIRST = (Verdict.DENY, Verdict.ASK, Verdict.ALLOW)

MatchesToolRule = Callable[[ToolRule], bool]


class TierDecision(msgspec.Struct, frozen=True):
    """The verdict of the rules on a unit; `rules` are those of the deciding tier and action, in file order."""

    verdict: Verdict
    rules: tuple[ToolRule, ...]

    @property
    def refs(self) -> tuple[RuleRef, ...]:
        return tuple(rule.ref for rule in self.rules)


def tier(rule: ToolRule) -> int:
    """Return 2 for `Tool(specifier)`, 1 for the exact tool, 0 for a glob over tools or a bare MCP server."""
    if rule.specifier is not None:
        return TOP_TIER
    return 0 if is_glob(rule.tool) else 1


def names(rule: ToolRule, tool: str) -> bool:
    """Return whether a rule without specifier matches a tool; an allow must name it, or its server, literally."""
    return names_tool(rule.tool, tool) and (rule.action is not Verdict.ALLOW or may_allow(rule.tool))


def decide(rules: Iterable[ToolRule], matches: MatchesToolRule) -> TierDecision | None:
    """Return the decision of the rules that match; None if none does.

    A milder, more specific rule lifts a stricter, wider one only if its layer ranks at least as high, and never a final
    deny: a repository's settings must not undo the denies of its user.
    """
    matching = [rule for rule in rules if matches(rule)]
    if not matching:
        return None
    best = max(map(tier, matching))
    deciding = _strictest([rule for rule in matching if tier(rule) == best])
    rank = max(rule.rank for rule in deciding.rules)
    outranking = [
        rule
        for rule in matching
        if tier(rule) < best
        and _stricter(rule.action, deciding.verdict)
        and (rule.rank > rank or (rule.final and rule.action is Verdict.DENY))
    ]
    return _strictest(outranking) if outranking else deciding


def _stricter(one: Verdict, other: Verdict) -> bool:
    return _STRICTEST_FIRST.index(one) < _STRICTEST_FIRST.index(other)


def _strictest(rules: Sequence[ToolRule]) -> TierDecision:
    for action in _STRICTEST_FIRST:
        chosen = tuple(rule for rule in rules if rule.action is action)
        if chosen:
            return TierDecision(action, chosen)
    raise AssertionError("there is at least one rule")
