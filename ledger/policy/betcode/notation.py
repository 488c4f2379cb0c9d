"""The rules of BetCode for conversions. A narrow rule comes before a wide one that is not final."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.conversion.paths import ELSEWHERE
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
from ledger.policy.toolrules.names import is_glob
from ledger.policy.toolrules.pathrules import ACCESS_RULE, is_path_tool

_FINAL_TIER: Final = 3
_HOMES: Final = {"user": "~/.claude", "managed": "//etc/claude-code"}


class BetCodeNotation(ToolNotation):
    """The notation of BetCode."""

    any_words = " *"
    exact_restrictions = False
    rooted_allows = True
    reading_searches = True
    asks_by_kind = True
    narrow_first = True

    def tier(self, rule: ListedRule, listed: Sequence[ListedRule]) -> int:
        """Return the precedence of a rule: narrow before wide, unless a wide one is final or of a higher layer."""
        if rule.pattern != WHOLE:
            return 2
        outranked = any(one.pattern != WHOLE and one.rank < rule.rank for one in listed)
        if rule.action is not Verdict.ALLOW and (rule.final or outranked):
            return _FINAL_TIER
        return 0 if is_glob(rule.permission) else 1

    def retell(
        self, rule: ListedRule, rules: Sequence[ListedRule], changes: list[ConversionChange]
    ) -> Iterator[ListedText]:
        return _retold(rule, rules, changes)


def _retold(rule: ListedRule, rules: Iterable[ListedRule], changes: list[ConversionChange]) -> Iterator[ListedText]:
    whole = rule.pattern == WHOLE
    if rule.action is Verdict.ALLOW:
        yield from _allowed(rule, rules, changes)
        return
    name = "final" if whole and rule.action is Verdict.DENY else rule.action.value
    if whole:
        if rule.permission == "Edit":
            changes.append(ConversionChange(rule, "it now covers every tool that edits"))
        yield name, rule.ref.text
        return
    if _says_nothing(rule):
        changes.append(ConversionChange(rule, WIDER))
    if is_exact_command(rule):
        changes.append(ConversionChange(rule, "it now covers the command with more words too"))
    rooted = _rooted(rule)
    if rooted != rule.pattern:
        changes.append(ConversionChange(rule, WIDER))
    yield name, rule_text(rule, rooted)


def _allowed(rule: ListedRule, rules: Iterable[ListedRule], changes: list[ConversionChange]) -> Iterator[ListedText]:
    stricter = wide_rule(rule, rules, (Verdict.ASK,))
    if stricter is not None:
        changes.append(ConversionChange(rule, f"the allow is left out: `{stricter.ref.text}` comes before it"))
        return
    if rule.pattern == WHOLE or not is_path_tool(rule.permission):
        yield "allow", rule.ref.text
        return
    path = None if _says_nothing(rule) else _below_the_project(rule)
    if path is None:
        changes.append(ConversionChange(rule, "betcode has no such rule; the allow is left out, so it asks"))
        return
    changes.append(
        ConversionChange(rule, "it now covers only the path from the working directory, and is case-sensitive")
    )
    yield "allow", rule_text(rule, path)


def _says_nothing(rule: ListedRule) -> bool:
    """Return whether Claude Code ignores the rule's path: it reads paths of rules for `Read` and `Edit` only."""
    return is_path_tool(rule.permission) and rule.permission not in ACCESS_RULE.values()


def _below_the_project(rule: ListedRule) -> str | None:
    pattern = rule.pattern.removeprefix("./")
    if pattern.startswith(("//", "~", "..", "!", "#")) or (pattern.startswith("/") and rule.ref.layer in ELSEWHERE):
        return None
    return pattern.removeprefix("/")


def _rooted(rule: ListedRule) -> str:
    """Return the pattern of a Claude Code deny or ask, with the root of its layer."""
    pattern = rule.pattern
    if not is_path_tool(rule.permission) or not pattern.startswith("/") or pattern.startswith("//"):
        return pattern
    home = _HOMES.get(rule.ref.layer or "")
    return f"{home}{pattern}" if home else pattern
