"""Policies: rules, matching, and the dialects that judge a tool call."""

from __future__ import annotations

from ledger.core.policy import (
    Call,
    Evaluation,
    Grant,
    Layer,
    Part,
    Policy,
    PolicySource,
    Rule,
    RuleRef,
    Verdict,
    strictest,
)
from ledger.policy.dialects import DIALECTS, compile_policy, digest
from ledger.policy.errors import PolicyError
from ledger.policy.loader import load_rules
from ledger.policy.rules import EDIT_TOOLS, disabled, evaluate, from_config, merge

__all__ = [
    "DIALECTS",
    "EDIT_TOOLS",
    "Call",
    "Evaluation",
    "Grant",
    "Layer",
    "Part",
    "Policy",
    "PolicyError",
    "PolicySource",
    "Rule",
    "RuleRef",
    "Verdict",
    "compile_policy",
    "digest",
    "disabled",
    "evaluate",
    "from_config",
    "load_rules",
    "merge",
    "strictest",
]
