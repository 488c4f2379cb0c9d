"""Allow rules: those for a whole tool, what narrower ones still change, and those that the hardened profile never honours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.policy import Layer, Policy, Verdict
from ledger.policy.errors import PolicyError
from ledger.policy.lint.findings import LintFinding, about, joined
from ledger.policy.lint.meant import meant_commands, written
from ledger.policy.lint.trials import Trial, samples
from ledger.policy.rule_list import WHOLE, ListedRule

_EDITORS: Final = ("Edit", "Write", "MultiEdit")
_OUTSIDE: Final = "/nowhere/x"
"""A file outside every project."""

TRIED_COUNT: Final = 200
"""Maximum narrower rules that are tried beside a wide one."""


def blanket(trial: Trial, rules: list[ListedRule], index: int) -> Iterator[LintFinding]:
    """Find an allow of every command, or of changes to every file of the machine."""
    rule = rules[index]
    if rule.action is not Verdict.ALLOW or rule.pattern != WHOLE:
        return
    if trial.is_command_rule(rule) or (rule.permission == "*" and trial.dialect.language.last_match):
        yield from _every_command(trial, rules, rule)
    elif rule.permission in _EDITORS and _reaches_outside(trial, rule):
        text = f"`{rule.ref.text}` allows to change every file of the machine, not only those of the project"
        yield about(rule, "blanket", "warning", text, "write `Edit(**)` for the files of the project")


def _every_command(trial: Trial, rules: list[ListedRule], rule: ListedRule) -> Iterator[LintFinding]:
    alone = trial.alone(rule, trial.profile)
    narrower = [one for one in rules if trial.is_command_rule(one) and one.pattern != WHOLE][:TRIED_COUNT]
    working = [one.ref.text for one in narrower if _still_decides(trial, alone, one)]
    idle = [one.ref.text for one in narrower if one.ref.text not in working]
    told = [f"`{rule.ref.text}` allows every command that no other rule restricts"]
    if working:
        told.append(f"beside it {joined(working)} still {'decides' if len(working) == 1 else 'decide'}")
    if idle:
        told.append(f"{joined(idle)} {'changes' if len(idle) == 1 else 'change'} nothing while it stands")
    fix = f"allow only the programs you mean, for example {written(trial.dialect, 'git *', Verdict.ALLOW).text}"
    yield about(rule, "blanket", "warning", "; ".join(told), fix)


def _still_decides(trial: Trial, alone: Policy, rule: ListedRule) -> bool:
    """Return whether the wide rule alone gives another verdict for a command of the narrower rule."""
    for line in samples(trial.dialect, rule.pattern):
        verdict = trial.verdict(line, trial.profile)
        if verdict is rule.action and trial.judge(alone, line).verdict is not verdict:
            return True
    return False


def _reaches_outside(trial: Trial, rule: ListedRule) -> bool:
    policy = trial.alone(rule, trial.profile)
    return trial.call(policy, rule.permission, {"file_path": _OUTSIDE}).verdict is Verdict.ALLOW


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
    entries = [(trial.shell, trial.dialect.notation.command_entry(sample)) for sample in found]
    layer = Layer(rule.ref.layer or "rule", config=trial.dialect.notation.config(entries, Verdict.ALLOW))
    exactly = trial.with_rules(layer, _HARDENED)
    if any(trial.judge(exactly, sample).verdict is Verdict.ALLOW for sample in found):
        return "allow whole commands without `*`, or leave it to a person"
    return "leave it to a person"
