"""Folders outside the project, about which OpenCode and BRUTUS ask first, whatever else is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from ledger.policy.brutus.bash import MORE_PATH_COMMANDS, PATH_COMMANDS
from ledger.policy.checking import EXTERNAL
from ledger.policy.converting.model import Change
from ledger.policy.model import Call, Policy, Verdict
from ledger.policy.neutral import Form, Neutral
from ledger.policy.opencode.commands import FILE_COMMANDS

_PROGRAMS: Final = PATH_COMMANDS | MORE_PATH_COMMANDS | FILE_COMMANDS
_WILD: Final = frozenset("*?")
_ELSEWHERE: Final = "/nowhere/*"
"""A folder that no rule names."""


def inside_the_project(rules: Iterable[Neutral], policy: Policy, changes: list[Change]) -> list[Neutral]:
    """The rules for a dialect that does not ask about folders outside the project by itself.

    An allow of reading or editing is for the project's own files, and one of commands that name files is left out.
    """
    if policy.evaluate(Call(EXTERNAL, (_ELSEWHERE,))).verdict is Verdict.ALLOW:
        return list(rules)
    return list(_inside(rules, policy.source.dialect, changes))


def _inside(rules: Iterable[Neutral], dialect: str, changes: list[Change]) -> Iterator[Neutral]:
    for rule in rules:
        if rule.action is not Verdict.ALLOW:
            yield rule
        elif rule.subject in ("read", "edit") and rule.form is Form.ALL and dialect == "opencode":
            yield replace(rule, form=Form.FLAT_PATH, text="*")
        elif rule.subject == "shell" and rule.form is not Form.EXACT and _may_name_files(rule):
            text = f"the allow is left out: {dialect} asks about folders outside the project first, and this would not"
            changes.append(Change(rule.source, text))
        else:
            yield rule


def _may_name_files(rule: Neutral) -> bool:
    program = rule.text.split(" ", 1)[0]
    return rule.form is Form.ALL or bool(_WILD & set(program)) or program in _PROGRAMS
