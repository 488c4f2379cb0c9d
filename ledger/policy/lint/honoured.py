"""Allow rules for commands that the hardened profile never allows."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.policy import Layer, Verdict
from ledger.policy.errors import PolicyError
from ledger.policy.lint.findings import LintFinding, about
from ledger.policy.lint.meant import meant_commands
from ledger.policy.lint.trials import Trial
from ledger.policy.rule_list import WHOLE, ListedRule

_HARDENED = "hardened"


def not_honoured(trial: Trial, rule: ListedRule) -> Iterator[LintFinding]:
    """Find an allow rule that allows none of its intended commands."""
    if rule.action is not Verdict.ALLOW or not trial.is_command_rule(rule) or rule.pattern == WHOLE:
        return
    try:
        policy = trial.alone(rule, _HARDENED)
    except PolicyError as problem:
        yield about(rule, "not-honoured", "warning", f"hardened refuses `{rule.ref.text}`: {problem}", "correct it")
        return
    found = [trial.judge(policy, sample) for sample in meant_commands(trial.dialect, rule.pattern)]
    if found and all(one.verdict is not Verdict.ALLOW for one in found):
        reason = next((one.reason for one in found if one.reason), "no command satisfies it")
        text = f"the hardened profile asks despite `{rule.ref.text}`: {reason}"
        yield about(rule, "not-honoured", "warning", text, _instead(trial, rule))


def _instead(trial: Trial, rule: ListedRule) -> str:
    """Return the advice; allowing whole commands helps only where the arguments, not the program, are dangerous."""
    found = meant_commands(trial.dialect, rule.pattern)
    entries = [(trial.shell, trial.dialect.command_entry(sample)) for sample in found]
    layer = Layer(rule.ref.layer or "rule", config=trial.dialect.config(entries, Verdict.ALLOW))
    exactly = trial.with_rules(layer, _HARDENED)
    if any(trial.judge(exactly, sample).verdict is Verdict.ALLOW for sample in found):
        return "allow whole commands without `*`, or leave it to a person"
    return "leave it to a person"
