"""Code shared by the dialects `betcode` and `claude`: rules, tool names, paths, grants and options."""

from __future__ import annotations

from ledger.policy.toolrules.commands import ToolGrant, read_grant
from ledger.policy.toolrules.rule import ToolRule, load_settings, load_tool_rules, parse_rule, read_rules

__all__ = ["ToolGrant", "ToolRule", "load_settings", "load_tool_rules", "parse_rule", "read_grant", "read_rules"]
