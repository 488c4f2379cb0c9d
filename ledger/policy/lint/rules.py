"""All lint checks, in the order of the rules; and that of demands for several approvers."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.policy import Layer, Policy
from ledger.policy.advice import Compile
from ledger.policy.dialects import listed_rules
from ledger.policy.lint.allows import blanket, not_honoured
from ledger.policy.lint.denies import exact_deny, leaky_deny
from ledger.policy.lint.findings import LintFinding, joined
from ledger.policy.lint.names import negation, tool_names
from ledger.policy.lint.order import lifted, overridden
from ledger.policy.lint.texts import no_rules, unknown_members
from ledger.policy.lint.trials import Trial


def too_few_named(layer: Layer) -> Iterator[LintFinding]:
    """Find demands that name fewer people than must approve: their calls are never allowed."""
    for index, demand in enumerate(layer.demands):
        people = {name.casefold(): name for name in demand.among}
        if demand.approvers is None or not people or len(people) >= demand.approvers:
            continue
        text = (
            f"{demand.approvers} people must approve `{demand.permission}` `{demand.pattern}`, and `among` names "
            f"{len(people)} ({joined(list(people.values()))}): no such call is ever allowed"
        )
        line = layer.lines.get(f"/demands/{index}")
        yield LintFinding(layer.file, line, "too-few-approvers", "error", text, "name more people, or demand fewer")


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
