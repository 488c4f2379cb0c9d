"""Neutral rules in the notation of BetCode and Claude Code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ledger.core.policy import Verdict
from ledger.policy.converting.model import ChangeReporter, ConversionChange
from ledger.policy.converting.order import everything, overlap
from ledger.policy.converting.paths import ignore_of_flat
from ledger.policy.linting import TOOLS
from ledger.policy.neutral import ANY, NAMES, Neutral, PatternForm, tool_names
from ledger.policy.toolrules.commands import normal_specifier

COMMANDS_TOO: Final = "it is about commands that name the file too"
_WIDER: Final = "it is about more than before"
_SEPARATORS_MAX: Final = 8
_ALLOWED: Final = {"edit": ("Edit", "Write")}
"""The tools to allow for a subject that needs several; a deny names all of them, including those of older versions."""

ToolRuleText = tuple[Neutral, str]


def tool_rules(rules: Sequence[Neutral], dialect: str, changes: list[ConversionChange]) -> list[ToolRuleText]:
    """Return each rule with a text that expresses it; one rule may yield several texts."""
    if everything(rules, Verdict.DENY):
        return [(next(rule for rule in rules if rule.subject == ANY), ANY)]
    found = []
    for place, rule in enumerate(rules):
        grown = _grown_after(rules, place) if dialect == "betcode" else None
        if grown is not None:
            text = f"the allow is left out: betcode would apply it before `{grown.source.ref.text}`, which has no equivalent"
            changes.append(ConversionChange(rule.source, text))
            continue

        def told(text: str, rule: Neutral = rule) -> None:
            changes.append(ConversionChange(rule.source, text))

        found += [(rule, text) for text in _spelt(rule, dialect, told)]
    return found


def _grown_after(rules: Sequence[Neutral], place: int) -> Neutral | None:
    """Return the later restriction that would lose to an allow in BetCode; None without one.

    A restriction without an equivalent is written for its whole tool, and BetCode applies narrower allows before it.
    """
    rule = rules[place]
    if rule.action is not Verdict.ALLOW:
        return None
    later = (one for one in rules[place + 1 :] if one.action is not Verdict.ALLOW and overlap(one, rule))
    return next((one for one in later if _specifiers(one, "betcode", allows=False)[0] is None), None)


def _spelt(rule: Neutral, dialect: str, told: ChangeReporter) -> list[str]:
    allows = rule.action is Verdict.ALLOW
    if rule.subject == ANY:
        return _rest(rule, dialect, told)
    if rule.subject not in NAMES:
        return _foreign(rule, dialect, allows=allows, told=told)
    if allows and rule.partial:
        told(f"{dialect} knows `{rule.tool}` and others as one; the allow is left out")
        return []
    names = (
        [*_ALLOWED.get(rule.subject, tool_names(dialect, rule.subject)[:1])]
        if allows
        else tool_names(dialect, rule.subject)
    )
    specifiers, exactly = _specifiers(rule, dialect, allows=allows)
    if specifiers is None and allows:
        told(f"{dialect} cannot say it; the allow is left out, so it asks")
        return []
    if rule.note:
        told(rule.note)
    if specifiers is None:
        told(f"{dialect} cannot say it; it is about the whole tool now")
        return names
    if not exactly or rule.partial:
        told(_WIDER)
    if rule.form is PatternForm.FLAT_PATH:
        if not allows:
            told(COMMANDS_TOO)
        names = names[:1]  # a rule with a path for `Edit` or `Read` covers all tools of that access
    if rule.form is PatternForm.NAME:
        names = names[:1]
    return names if rule.form is PatternForm.ALL else [f"{name}({one})" for name in names for one in specifiers]


def _rest(rule: Neutral, dialect: str, told: ChangeReporter) -> list[str]:
    """Return the rules that apply one action to all tools without a rule of their own."""
    if rule.action is Verdict.ALLOW:
        told(f"{dialect} does not allow every tool at once; it asks about the rest")
    if rule.action is not Verdict.DENY:
        return []
    known = {name for subject in NAMES for name in tool_names(dialect, subject)}
    return ["mcp__*", *(name for name in TOOLS[dialect] if name not in known)]


def _foreign(rule: Neutral, dialect: str, *, allows: bool, told: ChangeReporter) -> list[str]:
    """Return the rules for an unknown tool; a deny keeps its name, also as the name of a tool of an MCP server."""
    name = rule.subject
    if rule.action is not Verdict.DENY:
        told(f"{dialect} does not know `{name}`; it asks")
        return []
    told(f"`{name}` may have another name in {dialect}; see that it is denied there too")
    if "?" in name:
        return ["mcp__*"]
    server = [at for at, character in enumerate(name) if character == "_"][:_SEPARATORS_MAX]
    split = [f"mcp__{name[:at]}__{name[at + 1 :]}" for at in server if name[:at] and name[at + 1 :]]
    return [name, *split] if "*" not in name else [name, f"mcp__{name}", *split]


Spelt = tuple[list[str] | None, bool]
"""The specifiers, and whether they match exactly the same calls; None where the dialect has no equivalent."""


def _specifiers(rule: Neutral, dialect: str, *, allows: bool) -> Spelt:
    form, text = rule.form, rule.text
    if form is PatternForm.ALL:
        return [], True
    if rule.subject == "shell":
        return _command(form, text, dialect, allows=allows)
    if form is PatternForm.FLAT_PATH:
        # In BetCode an allow of a path for `Read` also covers searching there.
        searches = allows and dialect == "betcode" and rule.subject == "read"
        return (None, False) if searches else _path(text, dialect, allows=allows)
    if form is PatternForm.NAME and rule.subject == "task":
        # Claude Code cannot ask for a single kind of sub-agent.
        return (None, False) if rule.action is Verdict.ASK and dialect == "claude" else ([text], True)
    return None, False


def _command(form: PatternForm, text: str, dialect: str, *, allows: bool) -> Spelt:
    if form is PatternForm.OTHER:
        return None, False
    if form is PatternForm.PREFIX:
        return [f"{text}:*" if dialect == "claude" else f"{text} *"], True
    if "?" in text or text.endswith(":*") or normal_specifier(text) != text or set("\\\n") & set(text):
        loose = " ".join(text.replace("?", "*").replace(":*", "*").split())
        return (None, False) if allows or normal_specifier(loose) != loose or "\\" in text else ([loose], False)
    return [text], form is not PatternForm.EXACT or allows or dialect == "claude"


def _path(text: str, dialect: str, *, allows: bool) -> Spelt:
    found = ignore_of_flat(text)
    if found is None:
        return None, False
    if not allows or dialect == "claude":
        return [found], True
    rooted = found.removeprefix("/") if found.startswith("/") else f"**/{found}"
    return [rooted], True


def tool_config(written: Iterable[ToolRuleText]) -> dict[str, Any]:
    section: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for rule, text in written:
        if text not in section[rule.action.value]:
            section[rule.action.value].append(text)
    return {"permissions": {name: texts for name, texts in section.items() if texts}}
