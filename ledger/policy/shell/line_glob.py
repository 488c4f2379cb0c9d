"""Full-text globs that must match a line's operators and redirections one for one."""

from __future__ import annotations

from ledger.policy.matching.wildcard import whole_glob
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
    targets = all(whole_glob(_bare(one.target.raw))(other.target.raw) for one, other in pairs)
    return targets and whole_glob(_bare(template.text))(_collapse(command.text))


def _bare(template: str) -> str:
    return _collapse(template.replace("\\*", "*").replace("\\?", "?"))


def _collapse(text: str) -> str:
    return " ".join(text.split())
