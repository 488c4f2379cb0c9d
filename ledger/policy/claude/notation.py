"""The rules of Claude Code for conversions. Deny comes before ask and ask before allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.conversion.tools import (
    WIDER,
    ListedText,
    ToolNotation,
    is_exact_command,
    rule_text,
    wide_rule,
)
from ledger.policy.neutral import ConversionChange
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.toolrules.commands import normal_specifier
from ledger.policy.toolrules.pathrules import is_path_tool
from ledger.policy.toolrules.paths import EDITORS

_SUBAGENTS: Final = ("Agent", "Task")


class ClaudeNotation(ToolNotation):
    """The notation of Claude Code."""

    any_words = ":*"
    exact_restrictions = True
    rooted_allows = False
    reading_searches = False
    asks_by_kind = False
    free = frozenset({"read", "glob", "grep", "list", "task", "todowrite", "todoread"})
    looks_freely = True

    def retell(
        self, rule: ListedRule, rules: Sequence[ListedRule], changes: list[ConversionChange]
    ) -> Iterator[ListedText]:
        return _retold(rule, rules, changes)


def _retold(rule: ListedRule, rules: Iterable[ListedRule], changes: list[ConversionChange]) -> Iterator[ListedText]:
    name, pattern = rule.action.value, rule.pattern
    if rule.action is Verdict.ALLOW:
        yield from _allowed(rule, rules, changes)
        return
    if pattern == WHOLE:
        softer = next(
            (one for one in rules if one.action is not Verdict.DENY and wide_rule(one, [rule], (rule.action,))), None
        )
        if softer is not None and softer.action is not rule.action:
            changes.append(ConversionChange(rule, f"it now comes before `{softer.ref.text}` too"))
        names = sorted(EDITORS) if rule.permission == "Edit" else [rule.permission]
        yield from ((name, one) for one in names)
    elif is_exact_command(rule):
        yield name, rule_text(rule, f"{normal_specifier(pattern)}:*")
    elif rule.permission in _SUBAGENTS and rule.action is Verdict.ASK:
        changes.append(ConversionChange(rule, "claude has no such rule; it now covers the whole tool"))
        yield name, rule.permission
    elif is_path_tool(rule.permission):
        yield from ((name, text) for text in _paths(rule, changes))
    else:
        yield name, rule.ref.text


def _paths(rule: ListedRule, changes: list[ConversionChange]) -> Iterator[str]:
    """Yield the path rules for Claude Code.

    Only `Read` and `Edit` have paths there, and `/x` is relative to the project only.
    """
    tool = "Edit" if rule.permission in EDITORS else "Read"
    if rule.pattern.startswith("../"):
        changes.append(ConversionChange(rule, "claude has no such rule; it now covers the whole tool"))
        yield from sorted(EDITORS) if tool == "Edit" else [tool]
        return
    if tool != rule.permission:
        changes.append(ConversionChange(rule, WIDER))
    yield f"{tool}({rule.pattern})"
    if rule.pattern.startswith("/") and not rule.pattern.startswith("//"):
        yield f"{tool}(/{rule.pattern})"


def _allowed(rule: ListedRule, rules: Iterable[ListedRule], changes: list[ConversionChange]) -> Iterator[ListedText]:
    stricter = wide_rule(rule, rules, (Verdict.ASK, Verdict.DENY))
    if stricter is not None:
        changes.append(ConversionChange(rule, f"the allow is left out: `{stricter.ref.text}` comes before it"))
    elif rule.pattern != WHOLE and is_path_tool(rule.permission):
        changes.append(ConversionChange(rule, "claude ignores case in paths; the allow is left out, so it asks"))
    else:
        yield "allow", rule.ref.text
