"""Conversion between BetCode and Claude Code, which share a rule syntax and differ in precedence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ledger.core.policy import Policy, Verdict
from ledger.policy.conversion.model import ConversionChange
from ledger.policy.conversion.paths import ELSEWHERE
from ledger.policy.dialects import listed_rules
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.toolrules.commands import has_wildcard, normal_specifier
from ledger.policy.toolrules.names import names_tool
from ledger.policy.toolrules.pathrules import ACCESS_RULE, governs, is_path_tool
from ledger.policy.toolrules.paths import EDITORS

_WIDER: Final = "it now covers more than before"
_SUBAGENTS: Final = ("Agent", "Task")
_HOMES: Final = {"user": "~/.claude", "managed": "//etc/claude-code"}

ListedText = tuple[str, str]
"""The list that holds a rule, and the rule's text."""


def between_tool_rules(policy: Policy, dialect: str, changes: list[ConversionChange]) -> dict[str, Any]:
    """Return the configuration in the other of the two dialects."""
    rules = listed_rules(policy)
    section: dict[str, list[str]] = {"allow": [], "ask": [], "deny": [], "final": []}
    for rule in rules:
        for name, text in (
            _to_claude(rule, rules, changes) if dialect == "claude" else _to_betcode(rule, rules, changes)
        ):
            if text not in section[name]:
                section[name].append(text)
    return {"permissions": {name: texts for name, texts in section.items() if texts}}


def _text(rule: ListedRule, pattern: str) -> str:
    return f"{rule.permission}({pattern})"


def _wide(rule: ListedRule, rules: Iterable[ListedRule], actions: tuple[Verdict, ...]) -> ListedRule | None:
    """Return a rule for a whole tool that covers an allow and has one of these actions; None without one."""
    for one in rules:
        whole = one.pattern == WHOLE and one.action in actions and one is not rule
        if whole and (names_tool(one.permission, rule.permission) or _is_of(rule, one)):
            return one
    return None


def _is_of(rule: ListedRule, one: ListedRule) -> bool:
    return rule.pattern != WHOLE and is_path_tool(one.permission) and governs(rule.permission, one.permission)


def _exact_command(rule: ListedRule) -> bool:
    return rule.permission == "Bash" and rule.pattern != WHOLE and not has_wildcard(normal_specifier(rule.pattern))


# --- to betcode, where a narrow rule comes before a wide one that is not final


def _to_betcode(rule: ListedRule, rules: Iterable[ListedRule], changes: list[ConversionChange]) -> Iterator[ListedText]:
    whole = rule.pattern == WHOLE
    if rule.action is Verdict.ALLOW:
        yield from _allowed_in_betcode(rule, rules, changes)
        return
    name = "final" if whole and rule.action is Verdict.DENY else rule.action.value
    if whole:
        if rule.permission == "Edit":
            changes.append(ConversionChange(rule, "it now covers every tool that edits"))
        yield name, rule.ref.text
        return
    if _says_nothing(rule):
        changes.append(ConversionChange(rule, _WIDER))
    if _exact_command(rule):
        changes.append(ConversionChange(rule, "it now covers the command with more words too"))
    rooted = _rooted(rule)
    if rooted != rule.pattern:
        changes.append(ConversionChange(rule, _WIDER))
    yield name, _text(rule, rooted)


def _allowed_in_betcode(
    rule: ListedRule, rules: Iterable[ListedRule], changes: list[ConversionChange]
) -> Iterator[ListedText]:
    stricter = _wide(rule, rules, (Verdict.ASK,))
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
    yield "allow", _text(rule, path)


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


# --- to claude, where deny comes before ask and ask before allow


def _to_claude(rule: ListedRule, rules: Iterable[ListedRule], changes: list[ConversionChange]) -> Iterator[ListedText]:
    name, pattern = rule.action.value, rule.pattern
    if rule.action is Verdict.ALLOW:
        yield from _allowed_in_claude(rule, rules, changes)
        return
    if pattern == WHOLE:
        softer = next(
            (one for one in rules if one.action is not Verdict.DENY and _wide(one, [rule], (rule.action,))), None
        )
        if softer is not None and softer.action is not rule.action:
            changes.append(ConversionChange(rule, f"it now comes before `{softer.ref.text}` too"))
        names = sorted(EDITORS) if rule.permission == "Edit" else [rule.permission]
        yield from ((name, one) for one in names)
    elif _exact_command(rule):
        yield name, _text(rule, f"{normal_specifier(pattern)}:*")
    elif rule.permission in _SUBAGENTS and rule.action is Verdict.ASK:
        changes.append(ConversionChange(rule, "claude has no such rule; it now covers the whole tool"))
        yield name, rule.permission
    elif is_path_tool(rule.permission):
        yield from ((name, text) for text in _paths_in_claude(rule, changes))
    else:
        yield name, rule.ref.text


def _paths_in_claude(rule: ListedRule, changes: list[ConversionChange]) -> Iterator[str]:
    """Yield the path rules for Claude Code.

    Only `Read` and `Edit` have paths there, and `/x` is relative to the project only.
    """
    tool = "Edit" if rule.permission in EDITORS else "Read"
    if rule.pattern.startswith("../"):
        changes.append(ConversionChange(rule, "claude has no such rule; it now covers the whole tool"))
        yield from sorted(EDITORS) if tool == "Edit" else [tool]
        return
    if tool != rule.permission:
        changes.append(ConversionChange(rule, _WIDER))
    yield f"{tool}({rule.pattern})"
    if rule.pattern.startswith("/") and not rule.pattern.startswith("//"):
        yield f"{tool}(/{rule.pattern})"


def _allowed_in_claude(
    rule: ListedRule, rules: Iterable[ListedRule], changes: list[ConversionChange]
) -> Iterator[ListedText]:
    stricter = _wide(rule, rules, (Verdict.ASK, Verdict.DENY))
    if stricter is not None:
        changes.append(ConversionChange(rule, f"the allow is left out: `{stricter.ref.text}` comes before it"))
    elif rule.pattern != WHOLE and is_path_tool(rule.permission):
        changes.append(ConversionChange(rule, "claude ignores case in paths; the allow is left out, so it asks"))
    else:
        yield "allow", rule.ref.text
