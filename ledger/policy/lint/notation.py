"""Command rules in the notation of each dialect, for advice that is tested before it is given."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ledger.core.policy import Verdict
from ledger.policy.rule_list import TOOL_RULES


class WrittenRule(NamedTuple):
    """A rule: `text` as a person writes it, and a configuration that contains only this rule."""

    text: str
    config: dict[str, Any]


def written(dialect: str, pattern: str, action: Verdict) -> WrittenRule:
    """Return a dialect's rule for the commands that a pattern matches; a trailing ` *` is optional in them."""
    if dialect in TOOL_RULES:
        text = f"Bash({pattern})"
        return WrittenRule(f"`{text}`", {"permissions": {action.value: [text]}})
    if dialect == "codelia":
        prefix = pattern.removesuffix(" *")
        rule = {"tool": "bash", **({"command_glob": pattern} if "*" in prefix else {"command": prefix})}
        return WrittenRule(f"`{json.dumps(rule)}`", {"permissions": {action.value: [rule]}})
    config = {"permission": {"bash": {pattern: action.value}}}
    return WrittenRule(f"`{json.dumps(pattern)}: {json.dumps(action.value)}`", config)
