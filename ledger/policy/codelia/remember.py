"""The rules that a "remember" stores in the project's configuration (codelia.md 8)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.codelia.judge import CodeliaJudge
from ledger.policy.codelia.rule import (
    SHELL,
    SKILL,
    CodeliaRule,
    canonical,
    granted_rule,
    matches_text,
    matches_tool,
    skill_name,
    skills_of,
)
from ledger.policy.codelia.text import CodeliaLine, is_cd, normalise, words_of
from ledger.policy.shell import Analysis
from ledger.policy.shell.danger import never_allowed
from ledger.policy.shell.forms.objections import worry
from ledger.policy.shell.names import basename
from ledger.policy.shell.unwrap import peeled

RuleObject = dict[str, str]
"""A rule as written in a configuration: `tool`, then `command` or `skill_name` if it has one."""

SUBCOMMAND_PROGRAMS: Final = frozenset("git jj bun bunx npx npm pnpm yarn cargo go docker kubectl gh".split())  # noqa: SIM905
"""Programs of which two words are remembered."""

WRAPPERS: Final = frozenset("env command builtin nohup time sudo nice ionice chrt timeout stdbuf".split())  # noqa: SIM905
"""Programs that only run another program; Codelia remembers nothing for them."""

_PROGRAM = late_pattern(r"[A-Za-z0-9._+@:-]+")
_SUBCOMMAND = late_pattern(r"[A-Za-z][A-Za-z0-9:_-]*")


def line_rules(line: CodeliaLine, judge: CodeliaJudge) -> tuple[RuleObject, ...]:
    """Return one rule for each segment that is asked about, without repeats and without allowed ones."""
    texts = dict.fromkeys(segment.text for segment in line.segments if not is_cd(segment.text))
    heads = map(_head, texts)
    return tuple(_new((head for head in heads if head is not None), judge))


def plain_line_rules(analysis: Analysis, judge: CodeliaJudge) -> tuple[RuleObject, ...]:
    """Return the rules of `line_rules` that the hardened profile would accept for this very line."""
    if not analysis.plain or analysis.flow is not None:
        return ()
    heads = []
    for command in {command.text: command for command in analysis.top}.values():
        inner = peeled(command)
        if command.name == "cd" or command.redirects or never_allowed(inner) or worry(inner):
            continue
        words = [word.raw if word.raw == word.resolved else None for word in inner.words]
        if words[0] is not None and (head := _strict_head(words[0], words[1:])):
            heads.append(head)
    return tuple(_new(heads, judge))


def tool_rules(tool: str, value: Any, judge: CodeliaJudge) -> tuple[RuleObject, ...]:
    """Return the rule for a call of another tool: its skill, or the whole tool."""
    if tool != SKILL:
        known = any(matches_tool(rule, tool, None) for rule in _allowing(judge, tool))
        return () if known else ({"tool": tool},)
    named, led = skills_of(value)
    skill = named or led
    if skill is None or (judge.options.hardened and led not in (None, skill)):
        return ()
    known = any(matches_tool(rule, tool, skill) for rule in _allowing(judge, tool, skill))
    return () if known else ({"tool": SKILL, "skill_name": skill},)


def remembered_rules(permission: str, entries: Iterable[str]) -> tuple[RuleObject, ...]:
    """Return the rules in granted entries of an `always`; an entry that is no rule object has none.

    `cd` is never remembered: its target decides, and is another place each time (codelia.md 8).
    """
    rules: list[RuleObject] = []
    for entry in entries:
        rule = granted_rule(permission, entry) if entry.startswith("{") else None
        if rule is None or rule.tool != canonical(permission) or any(is_cd(text) for text in _commands(rule)):
            continue
        rules.append(json.loads(entry))
    return tuple(rules)


def _commands(rule: CodeliaRule) -> Iterator[str]:
    if rule.words is not None:
        yield " ".join(rule.words)
    if rule.glob is not None:
        yield rule.glob


def not_allowed_yet(rules: Iterable[RuleObject], allowed: Sequence[CodeliaRule]) -> tuple[RuleObject, ...]:
    """Return the rules that no rule of `allowed` covers."""
    return tuple(rule for rule in rules if not any(_covers(other, rule) for other in allowed))


def _covers(rule: CodeliaRule, other: RuleObject) -> bool:
    tool = canonical(other["tool"])
    if tool != SHELL:
        return matches_tool(rule, tool, skill_name(other.get("skill_name")))
    if rule.whole:
        return rule.tool == SHELL
    return "command_glob" not in other and matches_text(rule, normalise(other.get("command", "")))


def _allowing(judge: CodeliaJudge, *about: str) -> Iterator[CodeliaRule]:
    yield from judge.rules.allow.rules
    yield from (rule for _, rule in judge.grants.about(*about))


def _new(heads: Iterable[str], judge: CodeliaJudge) -> Iterator[RuleObject]:
    for head in dict.fromkeys(heads):
        if not _is_allowed(head, judge):
            yield {"tool": SHELL, "command": head}


def _is_allowed(head: str, judge: CodeliaJudge) -> bool:
    def matches(rule: CodeliaRule) -> bool:
        return matches_text(rule, head)

    known = judge.rules.allow.first(head.partition(" ")[0], matches)
    return known is not None or any(matches(rule) for _, rule in judge.grants.about(head))


def _head(segment: str) -> str | None:
    """Return the first word of a segment, or the first two; None for a segment for which nothing is remembered."""
    words = words_of(segment)
    if not words:
        return None
    program = basename(words[0])
    if not _PROGRAM.fullmatch(program) or program in (".", "..") or program in WRAPPERS or " " in words[0]:
        return None
    if program in SUBCOMMAND_PROGRAMS and len(words) > 1 and _SUBCOMMAND.fullmatch(words[1]):
        return f"{words[0]} {words[1]}"
    return words[0]


def _strict_head(program: str, rest: list[str | None]) -> str | None:
    """Return `_head` for a parsed command; None for a program with subcommands that is followed by an option."""
    if not _PROGRAM.fullmatch(basename(program)):
        return None
    if basename(program) not in SUBCOMMAND_PROGRAMS or not rest:
        return program
    second = rest[0]
    return f"{program} {second}" if second is not None and _SUBCOMMAND.fullmatch(second) else None


def same_rule(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Return whether two rule objects are equal; `shell` equals `bash`."""
    return _essence(left) == _essence(right)


def _essence(rule: Mapping[str, Any]) -> list[Any]:
    tool = rule.get("tool")
    return [SHELL if tool == "shell" else tool, *(rule.get(name) for name in ("command", "command_glob", "skill_name"))]
