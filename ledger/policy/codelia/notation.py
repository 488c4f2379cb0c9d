"""The rules of Codelia for conversions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ledger.core.policy import Verdict
from ledger.policy.codelia.rule import CodeliaRule, Ruleset, skill_name
from ledger.policy.conversion.order import by_strictness
from ledger.policy.neutral import (
    ANY,
    SUBJECTS,
    ChangeReporter,
    ConversionChange,
    Neutral,
    Notation,
    PatternForm,
    strictest_last,
)
from ledger.policy.rule_list import ListedRule

_COMMAND_WORDS_MAX = 2
_MORE_TOOLS = ("apply_patch",)
_OPERATORS: Final = frozenset("&|;\n<>")

CodeliaEntry = tuple[Neutral, dict[str, str]]


class CodeliaNotation(Notation):
    """The notation of Codelia."""

    asks = False

    def read(self, rules: Ruleset, listed: Sequence[ListedRule]) -> list[Neutral]:
        both = zip((*rules.deny, *rules.allow), listed, strict=True)
        return strictest_last([one for rule, its in both for one in _read(self, rule, its)], self.tool_names.groups)

    def write(self, rules: Sequence[Neutral], changes: list[ConversionChange]) -> dict[str, Any]:
        return codelia_config(codelia_rules(self, by_strictness(rules, self, changes), changes))


def _read(notation: CodeliaNotation, rule: CodeliaRule, listed: ListedRule) -> Iterator[Neutral]:
    subject = notation.tool_names.subject(rule.tool)
    if rule.inert or rule.words == ():
        return
    form, text, note = _form(rule, allows=listed.action is Verdict.ALLOW)
    yield Neutral(subject, form, text, listed.action, listed, partial=subject == "edit", note=note)


def _form(rule: CodeliaRule, *, allows: bool) -> tuple[PatternForm, str, str | None]:
    if rule.skill is not None:
        return PatternForm.NAME, rule.skill, None
    if rule.glob is None:
        return (PatternForm.ALL, "", None) if rule.words is None else (PatternForm.PREFIX, " ".join(rule.words), None)
    if rule.words is not None:
        text = " ".join(rule.words)
        return (
            (PatternForm.OTHER, text, None) if allows else (PatternForm.PREFIX, text, "it now covers more than before")
        )
    return _glob(rule.glob, allows=allows)


def _glob(glob: str, *, allows: bool) -> tuple[PatternForm, str, str | None]:
    """Return the form of a glob.

    It also matches the full line, so a deny is converted to a literal piece that one command of the line must have.
    """
    if not glob.strip("*"):
        return PatternForm.ALL, "", None if not allows else "each command of a line is now judged separately"
    wild = bool(set("*?") & set(glob))
    if allows:
        text = f"{glob}*" if glob.endswith(" *") else glob
        note = "each command of a line is now judged separately" if wild else None
        return (PatternForm.OTHER, glob, None) if set(glob) & _OPERATORS else (*_exactly(text), note)
    pieces = [piece for part in glob.replace("?", "*").split("*") for piece in _between_operators(part)]
    if not wild and not set(glob) & _OPERATORS:
        return PatternForm.EXACT, glob, None
    if len(pieces) == 1 and not set(glob) & (_OPERATORS | {"?"}):
        return (*_exactly(f"{glob}*" if glob.endswith(" *") else glob), None)
    longest = max(pieces, key=len, default="")
    return (
        (PatternForm.GLOB, f"*{longest}*", "it now covers more than before") if longest else (PatternForm.ALL, "", None)
    )


def _exactly(text: str) -> tuple[PatternForm, str]:
    return (PatternForm.GLOB if set("*?") & set(text) else PatternForm.EXACT), text


def _between_operators(text: str) -> list[str]:
    for operator in _OPERATORS:
        text = text.replace(operator, "\0")
    return [piece.strip() for piece in text.split("\0") if piece.strip()]


def codelia_rules(
    notation: CodeliaNotation, rules: Iterable[Neutral], changes: list[ConversionChange]
) -> list[CodeliaEntry]:
    """Return each rule with a Codelia rule object that expresses it; one rule may yield several objects."""
    return [(rule, members) for rule in rules for members in _spelt(notation, rule, changes)]


def _spelt(notation: CodeliaNotation, rule: Neutral, changes: list[ConversionChange]) -> list[dict[str, str]]:
    def told(text: str) -> None:
        changes.append(ConversionChange(rule.source, text))

    allows = rule.action is Verdict.ALLOW
    names = notation.tool_names.tools(rule.subject)
    if rule.subject == ANY:
        return _rest(notation, allows=allows, told=told)
    if rule.subject not in SUBJECTS:
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


def _rest(notation: CodeliaNotation, *, allows: bool, told: ChangeReporter) -> list[dict[str, str]]:
    if allows:
        told("codelia does not allow every tool at once; it asks about the rest")
        return []
    known = {name for subject in SUBJECTS for name in notation.tool_names.tools(subject)}
    told("codelia has no rule for tools that it does not know; it asks about them")
    return [{"tool": name} for name in (*notation.tools, *_MORE_TOOLS) if name not in known and name != "shell"]


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
