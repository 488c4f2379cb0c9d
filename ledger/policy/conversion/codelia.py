"""Neutral rules in Codelia's notation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger.core.policy import Verdict
from ledger.policy.codelia.rule import skill_name
from ledger.policy.conversion.model import ChangeReporter, ConversionChange
from ledger.policy.dialects import DIALECTS
from ledger.policy.neutral import ANY, NAMES, Neutral, PatternForm, tool_names

_COMMAND_WORDS_MAX = 2
_MORE_TOOLS = ("apply_patch",)

CodeliaEntry = tuple[Neutral, dict[str, str]]


def codelia_rules(rules: Iterable[Neutral], changes: list[ConversionChange]) -> list[CodeliaEntry]:
    """Return each rule with a Codelia rule object that expresses it; one rule may yield several objects."""
    return [(rule, members) for rule in rules for members in _spelt(rule, changes)]


def _spelt(rule: Neutral, changes: list[ConversionChange]) -> list[dict[str, str]]:
    def told(text: str) -> None:
        changes.append(ConversionChange(rule.source, text))

    allows = rule.action is Verdict.ALLOW
    names = tool_names("codelia", rule.subject)
    if rule.subject == ANY:
        return _rest(allows=allows, told=told)
    if rule.subject not in NAMES:
        return _foreign(rule, allows=allows, told=told)
    if not names:
        told("codelia has no such tool; its own tool for this asks")
        return []
    if allows and rule.partial:
        told(f"codelia knows `{rule.tool}` and others as one tool; the allow is left out")
        return []
    texts, exactly = _written(rule, names, allows=allows)
    if texts is None and allows:
        told("codelia has no such rule; the allow is left out, so it asks")
        return []
    if rule.note:
        told(rule.note)
    if texts is None:
        told("codelia has no such rule; it now covers the whole tool")
        return [{"tool": name} for name in names]
    if not exactly or (rule.partial and not allows):
        told("it now covers more than before")
    if rule.form is PatternForm.IGNORE_PATH:
        told(COMMANDS_TOO)
    return texts


COMMANDS_TOO = "commands that name the file are not covered; deny them too"


def _rest(*, allows: bool, told: ChangeReporter) -> list[dict[str, str]]:
    if allows:
        told("codelia does not allow every tool at once; it asks about the rest")
        return []
    known = {name for subject in NAMES for name in tool_names("codelia", subject)}
    told("codelia has no rule for tools that it does not know; it asks about them")
    return [
        {"tool": name} for name in (*DIALECTS["codelia"].tools, *_MORE_TOOLS) if name not in known and name != "shell"
    ]


def _foreign(rule: Neutral, *, allows: bool, told: ChangeReporter) -> list[dict[str, str]]:
    if allows:
        told(f"codelia does not know `{rule.subject}`; it asks")
        return []
    told(f"`{rule.subject}` may have another name in codelia; check that it is denied there too")
    return [] if "*" in rule.subject or "?" in rule.subject else [{"tool": rule.subject}]


def _written(rule: Neutral, names: list[str], *, allows: bool) -> tuple[list[dict[str, str]] | None, bool]:
    """Return the rule objects, and whether they match exactly the same calls; None where Codelia has no equivalent."""
    if rule.form is PatternForm.ALL:
        return [{"tool": name} for name in names], True
    if rule.form is PatternForm.NAME and rule.subject == "skill" and skill_name(rule.text) == rule.text:
        return [{"tool": names[0], "skill_name": rule.text}], True
    if rule.subject != "shell":
        return None, False
    return _command(rule, names[0], allows=allows)


def _command(rule: Neutral, shell: str, *, allows: bool) -> tuple[list[dict[str, str]] | None, bool]:
    """Return rule objects for a command.

    An allow with a wildcard has none, because a glob would match the full line too.
    """
    text = rule.text
    if rule.form is PatternForm.EXACT:
        return [{"tool": shell, "command_glob": text}], True
    if rule.form is PatternForm.PREFIX and len(text.split()) <= _COMMAND_WORDS_MAX:
        return [{"tool": shell, "command": text}], True
    if allows or rule.form not in (PatternForm.PREFIX, PatternForm.GLOB):
        return None, False
    if rule.form is PatternForm.PREFIX:
        return [{"tool": shell, "command_glob": one} for one in (text, f"{text} *")], True
    bare = text.removesuffix(" *")
    texts = [text] if bare == text else [bare, text]
    single = text.strip("*") and "?" not in text and "*" not in text.strip("*")
    return [{"tool": shell, "command_glob": one} for one in texts], bool(single)


def codelia_config(written: Iterable[CodeliaEntry]) -> dict[str, Any]:
    section: dict[str, list[dict[str, str]]] = {"allow": [], "deny": []}
    for rule, members in written:
        if members not in section[rule.action.value]:
            section[rule.action.value].append(members)
    return {"version": 1, "permissions": section}
