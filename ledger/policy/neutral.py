"""Rules of any dialect in one neutral form, by meaning: about which tool, how much of it, and what is decided. Pure.

The list is ordered so that the last match wins, whatever the order of the dialect was.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from ledger.policy.codelia.rule import CodeliaRule, Ruleset
from ledger.policy.listing import WHOLE, Listed, listed_rules
from ledger.policy.model import Policy, Verdict

ANY: Final = "*"
"""The subject of a rule about every tool."""


class Form(StrEnum):
    """How much of a tool a rule is about; `text` of the rule says what."""

    ALL = "all"
    EXACT = "exact"  # this command and nothing else
    PREFIX = "prefix"  # this command, with or without more words
    GLOB = "glob"  # `*` is any text
    FLAT_PATH = "flat_path"  # `*` is any text, also across folders
    IGNORE_PATH = "ignore_path"  # as in .gitignore
    DOMAIN = "domain"
    NAME = "name"  # a skill, a sub-agent


class Neutral(msgspec.Struct, frozen=True):
    """One rule. `source` is the rule that it came from; `partial` that it is about some tools of the subject only."""

    subject: str
    form: Form
    text: str
    action: Verdict
    source: Listed
    partial: bool = False


NAMES: Final = {
    "shell": ("bash", "Bash", "bash"),
    "read": ("read", "Read", "read"),
    "edit": ("edit", "Edit", "edit"),
    "fetch": ("webfetch", "WebFetch", None),
    "search": ("websearch", "WebSearch", None),
    "task": ("task", "Task", None),
    "glob": ("glob", "Glob", "glob_search"),
    "grep": ("grep", "Grep", "grep"),
    "list": ("list", "LS", None),
    "todowrite": ("todowrite", "TodoWrite", "todo_write"),
    "todoread": ("todoread", "TodoRead", "todo_read"),
    "skill": ("skill", "Skill", "skill_load"),
}
"""What each tool is called by opencode and brutus, by betcode and claude, and by codelia."""

_COLUMN: Final = {"opencode": 0, "brutus": 0, "betcode": 1, "claude": 1, "codelia": 2}
_MORE_NAMES: Final[tuple[dict[str, str], ...]] = (
    {},
    {"Write": "edit", "MultiEdit": "edit", "NotebookEdit": "edit", "NotebookRead": "read", "Agent": "task"},
    {"write": "edit"},
)
_STRICTNESS: Final = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
_DOMAIN: Final = "domain:"


def tool_name(dialect: str, subject: str) -> str | None:
    """What a dialect calls the tool; None when it has none of the kind."""
    names = NAMES.get(subject)
    return names[_COLUMN[dialect]] if names else subject


def neutral_rules(policy: Policy) -> list[Neutral]:
    """The rules of a policy, the last match of which decides."""
    dialect = policy.source.dialect
    raw = getattr(policy, "rules", ())
    if isinstance(raw, Ruleset):
        pairs = zip((*raw.deny, *raw.allow), listed_rules(policy), strict=True)
        found = [_codelia(rule, listed) for rule, listed in pairs]
    else:
        found = [_neutral(dialect, listed) for listed in listed_rules(policy)]
    if dialect in ("opencode", "brutus"):
        return found
    return sorted(found, key=lambda one: (_tier(dialect, one), _STRICTNESS[one.action]))


def _tier(dialect: str, rule: Neutral) -> int:
    """BetCode lets a narrow rule come before a wide one."""
    return int(dialect == "betcode" and rule.form is not Form.ALL)


def _neutral(dialect: str, rule: Listed) -> Neutral:
    subject = _subject(dialect, rule.permission)
    form, text = _form(dialect, subject, rule.pattern)
    if dialect == "betcode" and form is Form.IGNORE_PATH and text[0] not in "/~.*":
        text = f"/{text}"  # its patterns begin in the working directory
    return Neutral(subject, form, text, rule.action, rule, partial=rule.permission in _MORE_NAMES[_COLUMN[dialect]])


def _subject(dialect: str, name: str) -> str:
    column = _COLUMN[dialect]
    known = next((subject for subject, names in NAMES.items() if names[column] == name), None)
    return known or _MORE_NAMES[column].get(name, name)


def _form(dialect: str, subject: str, pattern: str) -> tuple[Form, str]:
    flat = dialect in ("opencode", "brutus")
    if pattern == WHOLE:
        return Form.ALL, ""
    if subject == "shell":
        return command_form(pattern)
    if subject in ("read", "edit"):
        return (Form.FLAT_PATH if flat else Form.IGNORE_PATH), pattern
    if subject == "fetch":
        return _fetch(pattern)
    return (Form.GLOB if set("*?") & set(pattern) else Form.NAME), pattern


def command_form(pattern: str) -> tuple[Form, str]:
    """The form of a pattern for commands."""
    prefix = pattern.removesuffix(":*") if pattern.endswith(":*") else pattern.removesuffix(" *")
    if set("*?") & set(prefix):
        return Form.GLOB, pattern
    return (Form.PREFIX if prefix != pattern else Form.EXACT), prefix


def _fetch(pattern: str) -> tuple[Form, str]:
    if pattern.startswith(_DOMAIN):
        return Form.DOMAIN, pattern.removeprefix(_DOMAIN)
    host = pattern.removeprefix("https://").removesuffix("/*")
    plain = pattern == f"https://{host}/*" and not set("*?/") & set(host)
    return (Form.DOMAIN, host) if plain else (Form.GLOB, pattern)


def _codelia(rule: CodeliaRule, listed: Listed) -> Neutral:
    subject = _subject("codelia", rule.tool)
    form, text = Form.ALL, ""
    if rule.words is not None and rule.glob is None:
        form, text = Form.PREFIX, " ".join(rule.words)
    elif rule.glob is not None:
        form, text = Form.GLOB, rule.glob
        if rule.words is None and not set("*?") & set(rule.glob):
            form = Form.EXACT
    elif rule.skill is not None:
        form, text = Form.NAME, rule.skill
    return Neutral(subject, form, text, listed.action, listed, partial=rule.tool in _MORE_NAMES[2])
