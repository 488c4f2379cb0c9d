"""Grants as tool rules: for a whole tool, or for a `Tool(specifier)` rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ledger.core.policy import Grant, RuleRef, Verdict
from ledger.policy.checks import NOWHERE, check_action, shown
from ledger.policy.errors import PolicyError
from ledger.policy.read_grants import ReadGrants
from ledger.policy.toolrules.commands import WEB_FETCH
from ledger.policy.toolrules.domains import address_of
from ledger.policy.toolrules.paths import EDITORS, READERS
from ledger.policy.toolrules.rule import ToolRule, parse_rule

_NAMES: Final = " ".join(("Agent", "Bash", "Task", "WebFetch", "domain", *sorted(READERS | EDITORS)))
"""The names in rules that need not be in the call that such a rule matches."""


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


class GrantedRules(ReadGrants[tuple[str, ToolRule]]):
    """Grants as rules, each with its id. A rule for one of the tools that rules can be for may match a call of another."""

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        super().__init__(grants, _as_rules, (_NAMES,))

    @property
    def denying(self) -> list[ToolRule]:
        """Return those that deny, which no grant of a ledger does."""
        return [rule for _, rule in self.all if rule.action is Verdict.DENY]


def texts_of(tool: str, value: Any, path: str | None) -> tuple[str, ...]:
    """Return the texts in a call of a tool other than Bash that a grant may name: its file, its hosts, its sub-agent."""
    kind = value.get("subagent_type") if isinstance(value, Mapping) else None
    hosts = sorted(address_of(value).hosts) if tool == WEB_FETCH else ()
    return (tool, *hosts, *(one for one in (path, kind) if isinstance(one, str)))


def _as_rules(grants: Sequence[Grant]) -> list[tuple[str, ToolRule]]:
    return [(grant.grant_id, grant_rule(grant)) for grant in grants]


def grant_rule(grant: Grant) -> ToolRule:
    """Return the rule of a grant. `pattern` is an entry of `always`, the tool's name, or a bare specifier."""
    action = getattr(grant, "action", Verdict.ALLOW)
    tool, specifier = parse_rule(grant.pattern)
    if grant.pattern in ("", "*"):
        tool, specifier = grant.permission, None
    elif specifier is None and not grant.pattern.endswith(")") and tool != grant.permission:
        known = tool.startswith("mcp__") or "*" in grant.permission
        tool, specifier = (tool, None) if known else (grant.permission, grant.pattern)
    return ToolRule(tool, specifier, action, RuleRef(grant.pattern))
