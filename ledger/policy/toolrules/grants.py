"""Grants as tool rules: for a whole tool, or for a `Tool(specifier)` rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ledger.core.indexed_grants import IndexedGrants
from ledger.core.policy import Grant, RuleRef, Verdict
from ledger.policy.checks import NOWHERE, check_action, shown
from ledger.policy.errors import PolicyError
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


class GrantedRules:
    """Grants as rules, each with its id, read where a text asks for them."""

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        self._grants = grants
        self._all = [] if isinstance(grants, IndexedGrants) else _as_rules(grants)
        self._about: dict[tuple[str, ...], list[tuple[str, ToolRule]]] = {}

    @property
    def denying(self) -> list[ToolRule]:
        """Return those that deny, which no grant of a ledger does."""
        return [rule for _, rule in self._all if rule.action is Verdict.DENY]

    def about(self, *texts: str) -> list[tuple[str, ToolRule]]:
        """Return the grants that may match a tool's name or one of these texts, in order.

        A rule for one of the tools that rules can be for may match a call of another.
        """
        if not isinstance(self._grants, IndexedGrants):
            return self._all
        found = self._about.get(texts)
        if found is None:
            found = self._about[texts] = _as_rules(self._grants.about((_NAMES, *texts)))
        return found


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
