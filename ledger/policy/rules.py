"""Rules as a program uses them: made from a configuration, merged, looked up (opencode-zh.md 4 and 9, opencode.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from ledger.core.policy import Rule, Verdict
from ledger.policy.checks import RuleLike, as_rules
from ledger.policy.loader import own_home, read_section, section_rules
from ledger.policy.matching.wildcard import match

EDIT_TOOLS: Final = frozenset({"edit", "write", "patch", "multiedit", "apply_patch"})
"""Tools that ask for the permission `edit` (opencode-zh.md 9.4)."""


def permission_of(tool: str) -> str:
    """Return the permission that a tool asks for; a tool of an MCP server or a plugin asks by its own name."""
    return "edit" if tool in EDIT_TOOLS else tool


def from_config(config: Any, *, home: str | None = None) -> tuple[Rule, ...]:
    """Return the rules of a `permission` value, in the order of its keys (opencode-zh.md 9.2).

    `config` is a mapping from permission to an action or to a mapping from pattern to action; a single action applies
    to every permission. A pattern that is `~`, or begins with `~/` or `$HOME`, is below `home`, the home directory of
    the user who runs the agent; by default that of this process. Raises PolicyError, which names the key.
    """
    return section_rules(read_section(config), home=own_home() if home is None else home)


def merge(*rulesets: Collection[RuleLike]) -> tuple[Rule, ...]:
    """Concatenate rulesets; nothing is sorted or dropped (opencode-zh.md 4.4). Raises PolicyError."""
    return tuple(rule for ruleset in rulesets for rule in as_rules(ruleset))


def evaluate(permission: str, pattern: str, *rulesets: Collection[RuleLike]) -> Rule:
    """Return the last rule whose permission and pattern match, else ask (opencode-zh.md 4.1). Raises PolicyError.

    Rules are checked and compiled at every call; `compile_policy` does that once.
    """
    for rule in reversed(merge(*rulesets)):
        if match(permission, rule.permission) and match(pattern, rule.pattern):
            return rule
    return Rule(permission, "*", Verdict.ASK)


def disabled(tools: Iterable[str], ruleset: Collection[RuleLike]) -> frozenset[str]:
    """Return the tools whose last rule denies every pattern (opencode-zh.md 9.4). Raises PolicyError.

    A last rule for only some patterns leaves the tool enabled, whatever its action.
    """
    rules = as_rules(ruleset)
    return frozenset(tool for tool in tools if _is_wholly_denied(tool, rules))


def _is_wholly_denied(tool: str, rules: tuple[Rule, ...]) -> bool:
    permission = permission_of(tool)
    for rule in reversed(rules):
        if match(permission, rule.permission):
            return rule.pattern == "*" and rule.action is Verdict.DENY
    return False
