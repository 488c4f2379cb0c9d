"""All lint checks, in the order of the rules."""

from __future__ import annotations

from ledger.core.policy import Policy
from ledger.policy.advice import Compile
from ledger.policy.dialects import listed_rules
from ledger.policy.lint.approvers import too_few_named
from ledger.policy.lint.denies import exact_deny, leaky_deny
from ledger.policy.lint.findings import LintFinding
from ledger.policy.lint.honoured import not_honoured
from ledger.policy.lint.names import negation, tool_names
from ledger.policy.lint.order import lifted, overridden
from ledger.policy.lint.texts import no_rules, unknown_members
from ledger.policy.lint.trials import Trial
from ledger.policy.lint.whole import blanket


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
