"""Rules that other rules always override, and denies that other rules lift."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.policy import Verdict
from ledger.policy.dialect import Dialect
from ledger.policy.lint.findings import LintFinding, about
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.rule_relations import covers, decides_before, is_redundant, lifts
from ledger.policy.toolrules.paths import is_path_tool


def overridden(dialect: Dialect, rules: list[ListedRule], index: int) -> Iterator[LintFinding]:
    """Find a rule that another one always precedes: first a redundant rule, else the first rule with another action."""
    rule = rules[index]
    found = [
        other
        for place, other in enumerate(rules)
        if place != index and decides_before(dialect, rules, place, index) and _surely_covers(dialect, other, rule)
    ]
    same = next((one for one in found if one.action is rule.action and is_redundant(dialect, rule, one)), None)
    other = next((one for one in found if one.action is not rule.action), None)
    if same is not None:
        text = f"`{rule.ref.text}` is redundant: `{same.ref.text}` ({same.place}) says the same"
        yield about(rule, "redundant", "info", text, "remove it")
    elif other is not None:
        code = "swallowed" if other.pattern == "*" else "unreachable"
        text = f"`{rule.ref.text}` never decides: `{other.ref.text}` ({other.place}) always comes before it"
        yield about(rule, code, "warning", text, _reorder(dialect, rule, other))


def _surely_covers(dialect: Dialect, wide: ListedRule, narrow: ListedRule) -> bool:
    """Return whether `wide` surely covers `narrow`.

    A rule for a whole tool never covers a path rule, which also restricts commands and other tools.
    """
    paths = dialect.language.tool_rules and is_path_tool(narrow.permission) and narrow.pattern != WHOLE
    return not (paths and wide.pattern == WHOLE) and covers(dialect, wide, narrow)


def _reorder(dialect: Dialect, rule: ListedRule, other: ListedRule) -> str:
    """Return advice that never lifts a deny."""
    if other.action is Verdict.DENY:
        return "remove it: a deny stands above it"
    if rule.action is Verdict.DENY and dialect.language.last_match:
        return f"the last match wins: write it below `{other.ref.text}`"
    if dialect.language.last_match:
        return f"the last match wins: write it below `{other.ref.text}`, or remove it"
    return f"{other.action.value} comes before {rule.action.value}: narrow `{other.ref.text}`, or remove this rule"


def lifted(dialect: Dialect, rules: list[ListedRule], index: int) -> Iterator[LintFinding]:
    """Find allow rules that lift part of a deny."""
    rule = rules[index]
    if rule.action is not Verdict.DENY:
        return
    for place, other in enumerate(rules):
        if other.action is Verdict.ALLOW and lifts(dialect, rules, place, index):
            text = f"`{rule.ref.text}` is lifted by `{other.ref.text}` ({other.place}) for what that names"
            yield about(
                rule, "lifted-deny", "warning", text, f"{dialect.language.keeping_a_deny}, or leave it if that is meant"
            )
