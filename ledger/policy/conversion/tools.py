"""Neutral rules in the notation of BetCode and Claude Code."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from ledger.core.policy import Verdict
from ledger.policy.conversion.order import by_strictness, everything
from ledger.policy.conversion.paths import ignore_of_flat
from ledger.policy.matching.wildcard import match
from ledger.policy.neutral import (
    ANY,
    SUBJECTS,
    ChangeReporter,
    ConversionChange,
    Neutral,
    Notation,
    PatternForm,
    command_form,
    strictest_last,
)
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.toolrules.commands import has_wildcard, normal_specifier
from ledger.policy.toolrules.names import may_allow, names_tool
from ledger.policy.toolrules.pathrules import governs, is_path_tool

COMMANDS_TOO: Final = "it now covers commands that name the file too"
WIDER: Final = "it now covers more than before"
_SEPARATORS_MAX: Final = 8
_ALLOWED: Final = {"edit": ("Edit", "Write")}
"""The tools to allow for a subject that needs several; a deny names all of them, including those of older versions."""

ToolRuleText = tuple[Neutral, str]


ListedText = tuple[str, str]
"""The list that holds a rule, and the rule's text."""

_DOMAIN: Final = "domain:"
_PATHS: Final = ("read", "edit")


class ToolNotation(Notation):
    """The notation of BetCode and Claude Code."""

    any_words: ClassVar[str]
    """The end of a command rule that leaves further words open."""

    exact_restrictions: ClassVar[bool]
    """A deny or an ask without wildcard is about that command or that tool alone."""

    rooted_allows: ClassVar[bool]
    """The path of an allow is the whole path from the working directory; else in the syntax of .gitignore."""

    reading_searches: ClassVar[bool]
    """An allow of a path for `Read` also covers searching there."""

    asks_by_kind: ClassVar[bool]
    """A rule can ask about a single kind of sub-agent."""

    narrow_first: ClassVar[bool] = False
    """A rule for some calls of a tool comes before a stricter one for the whole tool."""

    def read(self, rules: Any, listed: Sequence[ListedRule]) -> list[Neutral]:
        found = [one for rule in listed for one in _read(self, rule)]
        return strictest_last(found, self.tool_names.groups, lambda one: self.tier(one.source, listed))

    def tier(self, rule: ListedRule, listed: Sequence[ListedRule]) -> int:
        """Return the precedence of a rule before its strictness."""
        return 0

    def yields(self, rule: Neutral) -> bool:
        return self.narrow_first and _specifiers(rule, self, allows=False)[0] is None

    def write(self, rules: Sequence[Neutral], changes: list[ConversionChange]) -> dict[str, Any]:
        return tool_config(tool_rules(by_strictness(rules, self, changes), self, changes))

    def rewrite(
        self, listed: Sequence[ListedRule], origin: Notation, changes: list[ConversionChange]
    ) -> dict[str, Any] | None:
        if not isinstance(origin, ToolNotation):
            return None
        section: dict[str, list[str]] = {"allow": [], "ask": [], "deny": [], "final": []}
        for rule in listed:
            for name, text in self.retell(rule, listed, changes):
                if text not in section[name]:
                    section[name].append(text)
        return {"permissions": {name: texts for name, texts in section.items() if texts}}

    @abstractmethod
    def retell(
        self, rule: ListedRule, rules: Sequence[ListedRule], changes: list[ConversionChange]
    ) -> Iterator[ListedText]:
        """Yield a rule of the other dialect of this language."""


def _read(notation: ToolNotation, rule: ListedRule) -> Iterator[Neutral]:
    name, allows = rule.permission, rule.action is Verdict.ALLOW
    if "*" in name:
        if rule.pattern != WHOLE or (allows and not may_allow(name)):
            return  # such a rule decides nothing in its own dialect
        for subject in SUBJECTS:
            if any(match(one, name) for one in notation.tool_names.tools(subject)):
                yield Neutral(subject, PatternForm.ALL, "", rule.action, rule, partial=allows)
        yield Neutral(ANY if name == ANY else name, PatternForm.ALL, "", rule.action, rule)
        return
    subject = notation.tool_names.subject(name)
    form, text, note = _form(notation, rule, subject)
    yield Neutral(subject, form, text, rule.action, rule, partial=_is_partial(notation, rule), note=note)


def _is_partial(notation: ToolNotation, rule: ListedRule) -> bool:
    """Return whether a rule covers only some tools of its subject.

    `Edit` in BetCode denies every editing tool, and a path rule of `Edit` or `Read` applies to all tools of that kind.
    """
    if rule.permission in notation.tool_names.more:
        return True
    wide = rule.pattern != WHOLE or (not notation.exact_restrictions and rule.action is not Verdict.ALLOW)
    return rule.permission == "Edit" and not wide


def _form(notation: ToolNotation, rule: ListedRule, subject: str) -> tuple[PatternForm, str, str | None]:
    pattern, allows = rule.pattern, rule.action is Verdict.ALLOW
    if pattern == WHOLE:
        return PatternForm.ALL, "", None
    if subject == "shell":
        return _read_command(notation, normal_specifier(pattern), allows=allows)
    if rule.permission in ("Read", "Edit") or (notation.rooted_allows and subject in _PATHS):
        rooted = notation.rooted_allows and allows
        return (PatternForm.ROOTED_PATH if rooted else PatternForm.IGNORE_PATH), pattern, None
    if subject == "fetch" and pattern.startswith(_DOMAIN):
        host = pattern.removeprefix(_DOMAIN).strip().rstrip(".").lower()
        return (PatternForm.ALL, "", None) if host == "*" else (PatternForm.DOMAIN, host, None)
    named = subject == "task" and ":" not in pattern and not set("*?[") & set(pattern)
    return (PatternForm.NAME if named else PatternForm.OTHER), pattern, None


def _read_command(notation: ToolNotation, text: str, *, allows: bool) -> tuple[PatternForm, str, str | None]:
    if "?" in text:
        # `?` is literal here, and matches any character in the other dialects.
        return (PatternForm.OTHER, text, None) if allows else (PatternForm.GLOB, text, "`?` is any character now")
    form, prefix = command_form(text)
    if form is PatternForm.EXACT and not notation.exact_restrictions and not allows and not has_wildcard(text):
        return PatternForm.PREFIX, text, None  # a deny or ask matches every command that begins with its words
    return form, prefix, None


def tool_rules(rules: Sequence[Neutral], notation: ToolNotation, changes: list[ConversionChange]) -> list[ToolRuleText]:
    """Return each rule with a text that expresses it; one rule may yield several texts."""
    if everything(rules, Verdict.DENY):
        return [(next(rule for rule in rules if rule.subject == ANY), ANY)]
    found = []
    for rule in rules:

        def told(text: str, rule: Neutral = rule) -> None:
            changes.append(ConversionChange(rule.source, text))

        found += [(rule, text) for text in _spelt(rule, notation, told)]
    return found


def _spelt(rule: Neutral, notation: ToolNotation, told: ChangeReporter) -> list[str]:
    allows = rule.action is Verdict.ALLOW
    if rule.subject == ANY:
        return _rest(rule, notation, told)
    if rule.subject not in SUBJECTS:
        return _foreign(rule, notation, allows=allows, told=told)
    if allows and rule.partial:
        told(f"{notation.name} knows `{rule.tool}` and others as one tool; the allow is left out")
        return []
    names = (
        [*_ALLOWED.get(rule.subject, notation.tool_names.tools(rule.subject)[:1])]
        if allows
        else notation.tool_names.tools(rule.subject)
    )
    specifiers, exactly = _specifiers(rule, notation, allows=allows)
    if specifiers is None and allows:
        told(f"{notation.name} has no such rule; the allow is left out, so it asks")
        return []
    if rule.note:
        told(rule.note)
    if specifiers is None:
        told(f"{notation.name} has no such rule; it now covers the whole tool")
        return names
    if not exactly or rule.partial:
        told(WIDER)
    if rule.form is PatternForm.FLAT_PATH:
        if not allows:
            told(COMMANDS_TOO)
        names = names[:1]  # a rule with a path for `Edit` or `Read` covers all tools of that access
    if rule.form is PatternForm.NAME:
        names = names[:1]
    return names if rule.form is PatternForm.ALL else [f"{name}({one})" for name in names for one in specifiers]


def _rest(rule: Neutral, notation: ToolNotation, told: ChangeReporter) -> list[str]:
    """Return the rules that apply one action to all tools without a rule of their own."""
    if rule.action is Verdict.ALLOW:
        told(f"{notation.name} does not allow every tool at once; it asks about the rest")
    if rule.action is not Verdict.DENY:
        return []
    known = {name for subject in SUBJECTS for name in notation.tool_names.tools(subject)}
    return ["mcp__*", *(name for name in notation.tools if name not in known)]


def _foreign(rule: Neutral, notation: ToolNotation, *, allows: bool, told: ChangeReporter) -> list[str]:
    """Return the rules for an unknown tool; a deny keeps its name, also as the name of a tool of an MCP server."""
    name = rule.subject
    if rule.action is not Verdict.DENY:
        told(f"{notation.name} does not know `{name}`; it asks")
        return []
    told(f"`{name}` may have another name in {notation.name}; check that it is denied there too")
    if "?" in name:
        return ["mcp__*"]
    server = [at for at, character in enumerate(name) if character == "_"][:_SEPARATORS_MAX]
    split = [f"mcp__{name[:at]}__{name[at + 1 :]}" for at in server if name[:at] and name[at + 1 :]]
    return [name, *split] if "*" not in name else [name, f"mcp__{name}", *split]


Spelt = tuple[list[str] | None, bool]
"""The specifiers, and whether they match exactly the same calls; None where the dialect has no equivalent."""


def _specifiers(rule: Neutral, notation: ToolNotation, *, allows: bool) -> Spelt:
    form, text = rule.form, rule.text
    if form is PatternForm.ALL:
        return [], True
    if rule.subject == "shell":
        return _command(form, text, notation, allows=allows)
    if form is PatternForm.FLAT_PATH:
        searches = allows and notation.reading_searches and rule.subject == "read"
        return (None, False) if searches else _path(text, notation, allows=allows)
    if form is PatternForm.NAME and rule.subject == "task":
        return ([text], True) if notation.asks_by_kind or rule.action is not Verdict.ASK else (None, False)
    return None, False


def _command(form: PatternForm, text: str, notation: ToolNotation, *, allows: bool) -> Spelt:
    if form is PatternForm.OTHER:
        return None, False
    if form is PatternForm.PREFIX:
        return [f"{text}{notation.any_words}"], True
    if "?" in text or text.endswith(":*") or normal_specifier(text) != text or set("\\\n") & set(text):
        loose = " ".join(text.replace("?", "*").replace(":*", "*").split())
        return (None, False) if allows or normal_specifier(loose) != loose or "\\" in text else ([loose], False)
    return [text], form is not PatternForm.EXACT or allows or notation.exact_restrictions


def _path(text: str, notation: ToolNotation, *, allows: bool) -> Spelt:
    found = ignore_of_flat(text)
    if found is None:
        return None, False
    if not allows or not notation.rooted_allows:
        return [found], True
    rooted = found.removeprefix("/") if found.startswith("/") else f"**/{found}"
    return [rooted], True


def tool_config(written: Iterable[ToolRuleText]) -> dict[str, Any]:
    section: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for rule, text in written:
        if text not in section[rule.action.value]:
            section[rule.action.value].append(text)
    return {"permissions": {name: texts for name, texts in section.items() if texts}}


# --- from one dialect of this language to the other


def rule_text(rule: ListedRule, pattern: str) -> str:
    return f"{rule.permission}({pattern})"


def wide_rule(rule: ListedRule, rules: Iterable[ListedRule], actions: tuple[Verdict, ...]) -> ListedRule | None:
    """Return a rule for a whole tool that covers an allow and has one of these actions; None without one."""
    for one in rules:
        whole = one.pattern == WHOLE and one.action in actions and one is not rule
        if whole and (names_tool(one.permission, rule.permission) or _is_of(rule, one)):
            return one
    return None


def _is_of(rule: ListedRule, one: ListedRule) -> bool:
    return rule.pattern != WHOLE and is_path_tool(one.permission) and governs(rule.permission, one.permission)


def is_exact_command(rule: ListedRule) -> bool:
    return rule.permission == "Bash" and rule.pattern != WHOLE and not has_wildcard(normal_specifier(rule.pattern))
