"""Checks of well-formed rules that never decide, never allow, can be evaded, or name nothing. Pure."""

from __future__ import annotations

from ledger.core.policy import Policy
from ledger.policy.dialects import listed_rules
from ledger.policy.lint.reading import (
    LintFinding,
    Severity,
    lifted,
    lint_text,
    negation,
    no_rules,
    overridden,
    too_few_named,
    tool_names,
    unknown_members,
)
from ledger.policy.lint.trying import Trial, blanket, exact_deny, leaky_deny, not_honoured
from ledger.policy.offers import Compile

__all__ = ["LintFinding", "Severity", "lint_rules", "lint_text"]


def lint_rules(policy: Policy, compile_again: Compile) -> list[LintFinding]:
    """Return the problems with the rules of a compiled policy, in the order of the rules."""
    trial = Trial(policy.source, compile_again)
    rules = [rule for rule in listed_rules(policy) if rule.ref.layer != "defaults"]
    found: list[LintFinding] = []
    for index, rule in enumerate(rules):
        found += tool_names(trial.dialect, rules, index)
        found += negation(trial.dialect, rule)
        found += overridden(trial.dialect, rules, index)
        found += lifted(trial.dialect, rules, index)
        found += not_honoured(trial, rule)
        found += exact_deny(trial, rule)
        found += leaky_deny(trial, rule)
        found += blanket(trial, rules, index)
    for layer in policy.source.layers:
        found += unknown_members(trial.dialect, layer)
        found += too_few_named(layer)
    return found if rules or found else [no_rules(policy.source)]
