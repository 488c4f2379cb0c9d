"""Folders outside the project, for which OpenCode and BRUTUS ask before any other rule applies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from ledger.core.policy import Call, Policy, Verdict
from ledger.policy.brutus.bash import MORE_PATH_COMMANDS, PATH_COMMANDS
from ledger.policy.check_questions import EXTERNAL
from ledger.policy.neutral import ConversionChange, Neutral, Notation, PatternForm
from ledger.policy.opencode.commands import FILE_COMMANDS

_PROGRAMS: Final = PATH_COMMANDS | MORE_PATH_COMMANDS | FILE_COMMANDS
_WILD: Final = frozenset("*?")
_ELSEWHERE: Final = "/nowhere/*"
"""A folder that no rule names."""


def without_guarded(rules: Iterable[Neutral], policy: Policy, changes: list[ConversionChange]) -> list[Neutral]:
    """Return the rules without allows that would loosen the source policy's verdict on folders outside the project.

    If the source denies such access, asks are left out too.
    """
    verdict = _outside(policy)
    if verdict is Verdict.ALLOW:
        return list(rules)
    guarded = (Verdict.ALLOW, Verdict.ASK) if verdict is Verdict.DENY else (Verdict.ALLOW,)
    kept = []
    for rule in rules:
        files = rule.subject in ("read", "edit") and verdict is Verdict.DENY
        commands = rule.subject == "shell" and rule.form is not PatternForm.EXACT and _may_name_files(rule)
        if rule.action in guarded and (files or commands):
            does = "denies" if verdict is Verdict.DENY else "asks about"
            text = (
                f"the {rule.action.value} is left out: {policy.source.dialect} {does} folders outside the project first"
            )
            changes.append(ConversionChange(rule.source, f"{text}, and this would not"))
        else:
            kept.append(rule)
    return kept


def inside_the_project(rules: Iterable[Neutral], policy: Policy, origin: Notation) -> list[Neutral]:
    """Return the rules with each allow of all reading or editing narrowed to files of the project."""
    if not origin.guards_files or _outside(policy) is Verdict.ALLOW:
        return list(rules)
    return [
        replace(rule, form=PatternForm.FLAT_PATH, text="*")
        if rule.action is Verdict.ALLOW and rule.subject in ("read", "edit") and rule.form is PatternForm.ALL
        else rule
        for rule in rules
    ]


def _outside(policy: Policy) -> Verdict:
    return policy.evaluate(Call(EXTERNAL, (_ELSEWHERE,))).verdict


def _may_name_files(rule: Neutral) -> bool:
    program = rule.text.split(" ", 1)[0]
    return rule.form is PatternForm.ALL or bool(_WILD & set(program)) or program in _PROGRAMS
