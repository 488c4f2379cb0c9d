"""Grants as tool rules: for a whole tool, or for a `Tool(specifier)` rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.core.policy import Grant, RuleRef, Verdict
from ledger.policy.checks import NOWHERE, check_action, shown
from ledger.policy.errors import PolicyError
from ledger.policy.toolrules.rule import ToolRule, parse_rule


class ToolGrant(Grant, frozen=True, omit_defaults=True):
    """A grant that may also deny, as BetCode's `permission_grant` rows do (betcode.md, "Session grant …")."""

    action: Verdict = Verdict.ALLOW


def read_grant(value: Mapping[str, Any], grant_id: str = "grant") -> ToolGrant:
    """Return a grant from `{tool_name, pattern, action}`; `pattern` null or missing is the whole tool.

    Raises PolicyError.
    """
    tool, pattern = value.get("tool_name"), value.get("pattern")
    if not isinstance(tool, str) or not tool:
        raise PolicyError(f"a grant needs `tool_name`, not {shown(tool)}", key="grants")
    if pattern is not None and not isinstance(pattern, str):
        raise PolicyError(f"the pattern of a grant must be a string or null, not {shown(pattern)}", key="grants")
    action = check_action(value.get("action", "allow"), "the action of a grant", NOWHERE, ("grants",))
    return ToolGrant(grant_id, tool, pattern or tool, action=action)


def as_rules(grants: Sequence[Grant]) -> list[tuple[str, ToolRule]]:
    """Return grants as rules, each with its id.

    `pattern` is an entry of `always`, the tool's name, or a bare specifier.
    """
    return [(grant.grant_id, grant_rule(grant)) for grant in grants]


def grant_rule(grant: Grant) -> ToolRule:
    action = getattr(grant, "action", Verdict.ALLOW)
    tool, specifier = parse_rule(grant.pattern)
    if grant.pattern in ("", "*"):
        tool, specifier = grant.permission, None
    elif specifier is None and not grant.pattern.endswith(")") and tool != grant.permission:
        known = tool.startswith("mcp__") or "*" in grant.permission
        tool, specifier = (tool, None) if known else (grant.permission, grant.pattern)
    return ToolRule(tool, specifier, action, RuleRef(grant.pattern))
