"""What the dialects `betcode` and `claude` share: their rules' form, tool names, paths, grants and options."""

from __future__ import annotations

from ledger.policy.toolrules.grants import ToolGrant, read_grant
from ledger.policy.toolrules.rule import ToolRule, parse_rule, read_rules

__all__ = ["ToolGrant", "ToolRule", "parse_rule", "read_grant", "read_rules"]
