"""All lint checks, in the order of the rules."""

from __future__ import annotations

from ledger.core.policy import Policy
from ledger.policy.advising import Compile
from ledger.policy.linting.denies import exact_deny, leaky_deny
from ledger.policy.linting.finding import LintFinding
from ledger.policy.linting.honoured import not_honoured
from ledger.policy.linting.names import negation, tool_names
from ledger.policy.linting.order import lifted, overridden
from ledger.policy.linting.texts import no_rules, unknown_members
from ledger.policy.linting.trying import Trial
from ledger.policy.linting.whole import blanket
from ledger.policy.listing import listed_rules


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
    return found if rules or found else [no_rules(policy.source)]
