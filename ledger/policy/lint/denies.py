"""Deny and ask rules that another spelling of the same command evades."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.lint.findings import LintFinding, Severity, about, joined
from ledger.policy.lint.meant import written
from ledger.policy.lint.siblings import Siblings, siblings
from ledger.policy.lint.trials import PROFILES, Trial, is_weaker
from ledger.policy.rule_list import WHOLE, ListedRule

NARROW_COUNT: Final = 4
"""Rules named in one piece of advice; if more are needed, it names the whole command family."""

_DONE: Final = {Verdict.ALLOW: "allowed", Verdict.ASK: "asked about", Verdict.DENY: "denied"}


def exact_deny(trial: Trial, rule: ListedRule) -> Iterator[LintFinding]:
    """Find a restriction that covers a command but not the same command with more words: `Bash(rm)`."""
    if not _restricts_commands(trial, rule) or set(trial.dialect.language.wildcards) & set(rule.pattern):
        return
    passing = _passing(trial, rule, [f"{rule.pattern} x"])
    if passing and trial.verdict(rule.pattern, trial.profile) is rule.action:
        verb = "denies" if rule.action is Verdict.DENY else "asks about"
        text = f"`{rule.ref.text}` {verb} `{rule.pattern}` only without arguments: {_told(passing)}"
        fix = f"write {written(trial.dialect, f'{rule.pattern} *', rule.action).text}"
        yield about(rule, "exact-deny", "warning", text, fix)


def leaky_deny(trial: Trial, rule: ListedRule) -> Iterator[LintFinding]:
    """Find a restriction whose options have other spellings that it misses: `rm -rf *` and `rm -fr x`."""
    if not _restricts_commands(trial, rule):
        return
    found = siblings(trial.dialect, rule.pattern)
    if found is None:
        return
    passing = _passing(trial, rule, found.spellings)
    if not passing:
        return
    severity: Severity = "warning" if trial.profile in passing else "info"
    text = f"`{rule.ref.text}` does not cover other spellings: {_told(passing)}"
    fix = f"add {_reaching(trial, rule, found)}"
    if trial.profile in passing and "hardened" not in passing:
        fix = f"{fix}, or use the profile hardened"
    yield about(rule, "leaky-deny", severity, text, fix)


def _reaching(trial: Trial, rule: ListedRule, found: Siblings) -> str:
    """Return the narrowest rules that match all spellings even in the faithful profile."""
    narrow = [
        f"{found.command} *{one}*" if one.startswith("--") else f"{found.command} *{one} *" for one in found.names
    ]
    narrow = [pattern for pattern in narrow if not any(_holds(pattern, other) for other in narrow)]
    rules = [written(trial.dialect, pattern, rule.action) for pattern in narrow]
    if rules and len(rules) <= NARROW_COUNT:
        policy = trial.besides([one.config for one in rules], "faithful")
        if not any(is_weaker(trial.judge(policy, line).verdict, rule.action) for line in found.spellings):
            return " and ".join(one.text for one in rules)
    return written(trial.dialect, f"{found.command} *", rule.action).text


def _holds(pattern: str, other: str) -> bool:
    """Return whether `other` matches everything that `pattern` matches: `--force*` covers `--force-with-lease*`."""
    return pattern != other and other.endswith("*") and pattern.startswith(other.removesuffix("*"))


def _restricts_commands(trial: Trial, rule: ListedRule) -> bool:
    return rule.action is not Verdict.ALLOW and trial.is_command_rule(rule) and rule.pattern != WHOLE


def _passing(trial: Trial, rule: ListedRule, lines: list[str]) -> dict[str, dict[Verdict, list[str]]]:
    """Return the lines with a weaker verdict than the rule's action, by profile and verdict."""
    found: dict[str, dict[Verdict, list[str]]] = {}
    for profile in PROFILES:
        for line in lines:
            verdict = trial.verdict(line, profile)
            if is_weaker(verdict, rule.action):
                found.setdefault(profile, {}).setdefault(verdict, []).append(line)
    return found


def _told(passing: dict[str, dict[Verdict, list[str]]]) -> str:
    """Return the verdicts of each profile in words, once if all profiles agree."""
    told = {profile: _of_profile(found) for profile, found in passing.items()}
    if len(set(told.values())) == 1 and len(told) == len(PROFILES):
        return told[PROFILES[0]]
    return "; ".join(f"in profile {profile} {text}" for profile, text in told.items())


def _of_profile(found: dict[Verdict, list[str]]) -> str:
    said = [
        f"{joined(lines)} {'is' if len(lines) == 1 else 'are'} {_DONE[verdict]}" for verdict, lines in found.items()
    ]
    return " and ".join(said)
