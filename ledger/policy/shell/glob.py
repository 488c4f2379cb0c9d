"""Full-text globs that must match a line's operators and redirections one for one."""

from __future__ import annotations

from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Analysis, ShellCommand


def spells(pattern: str, analysis: Analysis) -> bool:
    """Return whether a full-text glob matches a line, with all operators and redirections spelled out.

    `*` matches any string, `?` any character. The pattern is parsed as a line itself: it must have the same operators
    and redirections in the same places, and match each command's text and each redirection's target. False for a line
    or pattern that is not plain for a reason other than its redirections.
    """
    if not (analysis.plain or analysis.redirects_only) or analysis.flow is not None:
        return False
    template = lex(pattern.replace("*", "\\*").replace("?", "\\?"))
    if not (template.plain or template.redirects_only) or template.operators != analysis.operators:
        return False
    commands = analysis.top
    return len(template.commands) == len(commands) and all(map(_covers, template.commands, commands))


def _covers(template: ShellCommand, command: ShellCommand) -> bool:
    if [one.operator for one in template.redirects] != [one.operator for one in command.redirects]:
        return False
    pairs = zip(template.redirects, command.redirects, strict=True)
    targets = all(matches(_bare(one.target.raw), other.target.raw) for one, other in pairs)
    return targets and matches(_bare(template.text), _collapse(command.text))


def _bare(template: str) -> str:
    return _collapse(template.replace("\\*", "*").replace("\\?", "?"))


def _collapse(text: str) -> str:
    return " ".join(text.split())


def matches(pattern: str, text: str) -> bool:
    """Return whether a glob of `*` and `?` matches the whole text, newlines included. Linear in pattern times text."""
    at = start = 0
    star = -1
    while at < len(text):
        if start < len(pattern) and pattern[start] == "*":
            star, resume = start, at
            start += 1
        elif start < len(pattern) and pattern[start] in ("?", text[at]):
            start += 1
            at += 1
        elif star >= 0:
            resume += 1
            start, at = star + 1, resume
        else:
            return False
    return not pattern[start:].strip("*")
