"""Rules of any dialect in one neutral form: tool, extent and action. Pure.

In the list the last match wins, whatever the order of the dialect was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from ledger.core.policy import Policy, Verdict
from ledger.policy.codelia.rule import CodeliaRule, Ruleset
from ledger.policy.dialects import listed_rules
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.toolrules.commands import has_wildcard, normal_specifier
from ledger.policy.toolrules.names import is_glob, may_allow
from ledger.policy.wildcard import match

ANY: Final = "*"
"""The subject of a rule for every tool that is not in `NAMES`."""


class PatternForm(StrEnum):
    """The extent of a rule within a tool; `text` of the rule holds its pattern."""

    ALL = "all"
    EXACT = "exact"  # this command and nothing else
    PREFIX = "prefix"  # this command, with or without more words
    GLOB = "glob"  # `*` is any text and `?` one character; ` *` at the end is optional
    FLAT_PATH = "flat_path"  # `*` is any text, also across folders
    IGNORE_PATH = "ignore_path"  # as in .gitignore
    ROOTED_PATH = "rooted_path"  # the whole path from the working directory, `**` across folders
    DOMAIN = "domain"
    NAME = "name"  # a sub-agent, a skill
    OTHER = "other"  # a pattern that only its own dialect can express


class Neutral(msgspec.Struct, frozen=True):
    """One rule. `source` is the original rule and `note` a difference from it.

    `partial`: the rule covers one of several tools of its subject.
    """

    subject: str
    form: PatternForm
    text: str
    action: Verdict
    source: ListedRule
    partial: bool = False
    note: str | None = None

    @property
    def tool(self) -> str:
        """Return the tool's name in the rule's own dialect."""
        return self.source.permission


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
"""Tool names in opencode and brutus, in betcode and claude, and in codelia."""

_COLUMN: Final = {"opencode": 0, "brutus": 0, "betcode": 1, "claude": 1, "codelia": 2}
MORE_NAMES: Final[tuple[dict[str, str], ...]] = (
    {},
    {"Write": "edit", "MultiEdit": "edit", "NotebookEdit": "edit", "NotebookRead": "read", "Agent": "task"},
    {"write": "edit"},
)
"""Tools that another dialect combines with another tool."""

_GROUPS: Final[dict[str, tuple[frozenset[str], ...]]] = {
    "edit": (frozenset(), frozenset({"Edit", "Write"}), frozenset({"edit", "write"})),
}
"""The tools that must all be allowed before the subject is."""

_STRICTNESS: Final = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
_DOMAIN: Final = "domain:"
_PATHS: Final = ("read", "edit")
_OPERATORS: Final = frozenset("&|;\n<>")
_FINAL_TIER: Final = 3


def tool_name(dialect: str, subject: str) -> str | None:
    """Return a dialect's name of the tool; None if it has no such tool."""
    names = NAMES.get(subject)
    return names[_COLUMN[dialect]] if names else subject


def tool_names(dialect: str, subject: str) -> list[str]:
    """Return every tool of a dialect that belongs to a subject."""
    name = tool_name(dialect, subject)
    more = [one for one, known in MORE_NAMES[_COLUMN[dialect]].items() if known == subject]
    return [] if name is None else [name, *more]


def neutral_rules(policy: Policy) -> list[Neutral]:
    """Return the rules of a policy, ordered so that the last match decides."""
    dialect = policy.source.dialect
    listed = listed_rules(policy)
    raw = getattr(policy, "rules", ())
    if isinstance(raw, Ruleset):
        found = [one for rule, its in zip((*raw.deny, *raw.allow), listed, strict=True) for one in _codelia(rule, its)]
    elif dialect in ("opencode", "brutus"):
        return [one for rule in listed for one in _flat(dialect, rule)]
    else:
        found = [one for rule in listed for one in _tool(dialect, rule)]
    return sorted(_whole_groups(dialect, found), key=lambda one: (_tier(dialect, one, listed), _STRICTNESS[one.action]))


def _tier(dialect: str, rule: Neutral, listed: Iterable[ListedRule]) -> int:
    """Return the precedence of a rule: BetCode prefers narrow rules unless a wide one is final or of a higher layer."""
    if dialect != "betcode":
        return 0
    source = rule.source
    if source.pattern != WHOLE:
        return 2
    outranked = any(one.pattern != WHOLE and one.rank < source.rank for one in listed)
    if source.action is not Verdict.ALLOW and (source.final or outranked):
        return _FINAL_TIER
    return 0 if is_glob(source.permission) else 1


def _whole_groups(dialect: str, found: list[Neutral]) -> list[Neutral]:
    """Return the rules; an allow of a whole tool is partial unless all tools of its subject are allowed."""
    allowed = {one.tool for one in found if one.action is Verdict.ALLOW and one.form is PatternForm.ALL}
    rules = []
    for one in found:
        group = _GROUPS.get(one.subject, (frozenset[str](),) * 3)[_COLUMN[dialect]]
        if group and one.form is PatternForm.ALL and one.action is Verdict.ALLOW:
            rules.append(msgspec.structs.replace(one, partial=not group <= allowed))
        else:
            rules.append(one)
    return rules


def _subject(dialect: str, name: str) -> str:
    column = _COLUMN[dialect]
    known = next((subject for subject, names in NAMES.items() if names[column] == name), None)
    return known or MORE_NAMES[column].get(name, name)


# --- opencode, brutus


def _flat(dialect: str, rule: ListedRule) -> Iterator[Neutral]:
    """Yield a rule for each tool that the permission matches."""
    name = rule.permission
    if not set("*?") & set(name):
        subject = _subject("opencode", name)
        yield Neutral(subject, *_flat_form(dialect, subject, rule.pattern), rule.action, rule)
        return
    note = None if name == ANY else f"`{name}` now covers only the tools that are known by name"
    for subject, names in NAMES.items():
        if match(names[0], name):
            yield Neutral(subject, *_flat_form(dialect, subject, rule.pattern), rule.action, rule, note=note)
    if not rule.pattern.strip("*"):
        yield Neutral(ANY if name == ANY else name, PatternForm.ALL, "", rule.action, rule, note=note)


def _flat_form(dialect: str, subject: str, pattern: str) -> tuple[PatternForm, str]:
    if not pattern.strip("*"):
        return PatternForm.ALL, ""
    if subject == "shell":
        return command_form(pattern)
    if subject in _PATHS:
        return PatternForm.FLAT_PATH, pattern
    if dialect == "brutus" and subject in ("task", "skill"):
        return PatternForm.OTHER, pattern  # in these tools the request asks about `*`
    return (PatternForm.GLOB if set("*?") & set(pattern) else PatternForm.NAME), pattern


def command_form(pattern: str) -> tuple[PatternForm, str]:
    """Return the form of a wildcard for commands."""
    prefix = pattern.removesuffix(" *")
    if set("*?") & set(prefix) or prefix != " ".join(prefix.split()):
        return PatternForm.GLOB, pattern
    return (PatternForm.PREFIX if prefix != pattern else PatternForm.EXACT), prefix


# --- betcode, claude


def _tool(dialect: str, rule: ListedRule) -> Iterator[Neutral]:
    name, allows = rule.permission, rule.action is Verdict.ALLOW
    if "*" in name:
        if rule.pattern != WHOLE or (allows and not may_allow(name)):
            return  # such a rule decides nothing in its own dialect
        for subject in NAMES:
            if any(match(one, name) for one in tool_names(dialect, subject)):
                yield Neutral(subject, PatternForm.ALL, "", rule.action, rule, partial=allows)
        yield Neutral(ANY if name == ANY else name, PatternForm.ALL, "", rule.action, rule)
        return
    subject = _subject(dialect, name)
    form, text, note = _tool_form(dialect, rule, subject)
    yield Neutral(subject, form, text, rule.action, rule, partial=_is_partial(dialect, rule), note=note)


def _is_partial(dialect: str, rule: ListedRule) -> bool:
    """Return whether a rule covers only some tools of its subject.

    `Edit` in BetCode denies every editing tool, and a path rule of `Edit` or `Read` applies to all tools of that kind.
    """
    if rule.permission in MORE_NAMES[1]:
        return True
    wide = rule.pattern != WHOLE or (dialect == "betcode" and rule.action is not Verdict.ALLOW)
    return rule.permission == "Edit" and not wide


def _tool_form(dialect: str, rule: ListedRule, subject: str) -> tuple[PatternForm, str, str | None]:
    pattern, allows = rule.pattern, rule.action is Verdict.ALLOW
    if pattern == WHOLE:
        return PatternForm.ALL, "", None
    if subject == "shell":
        return _tool_command(dialect, normal_specifier(pattern), allows=allows)
    if rule.permission in ("Read", "Edit") or (dialect == "betcode" and subject in _PATHS):
        rooted = dialect == "betcode" and allows
        return (PatternForm.ROOTED_PATH if rooted else PatternForm.IGNORE_PATH), pattern, None
    if subject == "fetch" and pattern.startswith(_DOMAIN):
        host = pattern.removeprefix(_DOMAIN).strip().rstrip(".").lower()
        return (PatternForm.ALL, "", None) if host == "*" else (PatternForm.DOMAIN, host, None)
    named = subject == "task" and ":" not in pattern and not set("*?[") & set(pattern)
    return (PatternForm.NAME if named else PatternForm.OTHER), pattern, None


def _tool_command(dialect: str, text: str, *, allows: bool) -> tuple[PatternForm, str, str | None]:
    if "?" in text:
        # `?` is literal here, and matches any character in the other dialects.
        return (PatternForm.OTHER, text, None) if allows else (PatternForm.GLOB, text, "`?` is any character now")
    form, prefix = command_form(text)
    if form is PatternForm.EXACT and dialect == "betcode" and not allows and not has_wildcard(text):
        return PatternForm.PREFIX, text, None  # a deny or ask matches every command that begins with its words
    return form, prefix, None


# --- codelia


def _codelia(rule: CodeliaRule, listed: ListedRule) -> Iterator[Neutral]:
    subject = _subject("codelia", rule.tool)
    if rule.inert or rule.words == ():
        return
    form, text, note = _codelia_form(rule, allows=listed.action is Verdict.ALLOW)
    yield Neutral(subject, form, text, listed.action, listed, partial=subject == "edit", note=note)


def _codelia_form(rule: CodeliaRule, *, allows: bool) -> tuple[PatternForm, str, str | None]:
    if rule.skill is not None:
        return PatternForm.NAME, rule.skill, None
    if rule.glob is None:
        return (PatternForm.ALL, "", None) if rule.words is None else (PatternForm.PREFIX, " ".join(rule.words), None)
    if rule.words is not None:
        text = " ".join(rule.words)
        return (
            (PatternForm.OTHER, text, None) if allows else (PatternForm.PREFIX, text, "it now covers more than before")
        )
    return _codelia_glob(rule.glob, allows=allows)


def _codelia_glob(glob: str, *, allows: bool) -> tuple[PatternForm, str, str | None]:
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
