"""The rules of any dialect in one form: permission, pattern, action and origin."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from ledger.core.policy import Policy, Rule, RuleRef, Verdict
from ledger.policy.codelia.rule import CodeliaRule, Ruleset
from ledger.policy.toolrules.rule import ToolRule

WHOLE: Final = "*"
"""The pattern of a rule for a whole tool."""

TOOL_RULES: Final = ("betcode", "claude")


class ListedRule(msgspec.Struct, frozen=True):
    """One rule. `pattern` is `*` for a whole tool; `ref` is the rule as its dialect spells it.

    `rank` is the position of its layer and `final` marks a deny that nothing lifts; only BetCode's rules have them.
    """

    permission: str
    pattern: str
    action: Verdict
    ref: RuleRef
    rank: int = 0
    final: bool = False

    @property
    def place(self) -> str:
        """Return `file:line`, or the known part of it; else the layer."""
        file, line = self.ref.file, self.ref.line
        return f"{file}:{line}" if file and line else file or self.ref.layer or "-"

    def as_json(self) -> dict[str, Any]:
        return {
            "permission": self.permission,
            "pattern": self.pattern,
            "action": self.action.value,
            "layer": self.ref.layer,
        }


def listed_rules(policy: Policy) -> tuple[ListedRule, ...]:
    """Return the rules of a compiled policy, in its dialect's own order: lowest layer first."""
    rules: Any = getattr(policy, "rules", ())
    if isinstance(rules, Ruleset):
        both = (*((rule, Verdict.DENY) for rule in rules.deny), *((rule, Verdict.ALLOW) for rule in rules.allow))
        return tuple(ListedRule(rule.tool, _codelia_pattern(rule), action, rule.ref) for rule, action in both)
    return tuple(_listed(rule) for rule in rules)


def _listed(rule: Rule | ToolRule) -> ListedRule:
    if isinstance(rule, ToolRule):
        return ListedRule(rule.tool, rule.specifier or WHOLE, rule.action, rule.ref, rule.rank, rule.final)
    text = f"{rule.permission} {rule.pattern} {rule.action.value}"
    return ListedRule(rule.permission, rule.pattern, rule.action, RuleRef(text, rule.layer, rule.file, rule.line))


def _codelia_pattern(rule: CodeliaRule) -> str:
    """Return the pattern of a rule with all its conditions: a rule with two matches only where both do."""
    found = [" ".join(rule.words) + " *"] if rule.words is not None else []
    found += [text for text in (rule.glob, rule.skill) if text is not None]
    return " and ".join(found) or WHOLE


def rule_config(dialect: str, rule: ListedRule) -> dict[str, Any]:
    """Return a configuration of the dialect that holds only this rule."""
    if dialect in TOOL_RULES:
        return {"permissions": {rule.action.value: [rule.ref.text]}}
    if dialect == "codelia":
        return {"permissions": {rule.action.value: [json.loads(rule.ref.text)]}}
    return {"permission": {rule.permission: {rule.pattern: rule.action.value}}}


def always_config(dialect: str, permission: str, entries: tuple[str, ...]) -> dict[str, Any]:
    """Return a configuration that allows the entries of an `always`."""
    if dialect in TOOL_RULES:
        return {"permissions": {"allow": list(entries)}}
    if dialect == "codelia":
        return {"permissions": {"allow": [json.loads(entry) for entry in entries]}}
    return {"permission": {permission: dict.fromkeys(entries, "allow")}}


def wildcards(dialect: str) -> str:
    """Return the characters that a pattern for commands cannot match literally."""
    return "*" if dialect in TOOL_RULES else "*?"


def command_entry(dialect: str, shell: str, command: str) -> str:
    """Return an entry of `always` for a command as it is written; a wildcard in it keeps its meaning."""
    if dialect in TOOL_RULES:
        return f"{shell}({command})"
    if dialect == "codelia":
        return json.dumps({"tool": shell, "command_glob": command}, ensure_ascii=False)
    return command


def always_objects(dialect: str, permission: str, entries: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return entries of `always` in the shape that `grants` of a question has."""
    if dialect == "codelia":
        return [json.loads(entry) for entry in entries]
    if dialect in TOOL_RULES:
        return [_tool_grant(entry) for entry in entries]
    return [{"permission": permission, "pattern": entry, "action": "allow"} for entry in entries]


def _tool_grant(entry: str) -> dict[str, Any]:
    name, opened, rest = entry.partition("(")
    return {"tool_name": name, "pattern": rest.removesuffix(")") if opened else None, "action": "allow"}
