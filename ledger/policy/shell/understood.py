"""Lines beyond the plain subset in which every command and every file is known.

Such a line is allowed if the rules allow everything, unless it runs a shell, changes the shell or hides a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.policy.shell.danger import never_allowed
from ledger.policy.shell.forms.worries import worry
from ledger.policy.shell.model import Analysis, CommandRules, Redirect, ShellCommand, accesses
from ledger.policy.shell.parse import is_grammatical
from ledger.policy.shell.text import join_lines, strange_character, too_long
from ledger.policy.shell.unwrap import peeled

_MOVING: Final = frozenset({"cd", "chdir", "pushd", "popd"})


def understood(source: str, analysis: Analysis, rules: CommandRules, directory: str) -> bool:
    """Return whether rules that allow everything allow this line: no part is hidden, and its files are allowed."""
    if analysis.cut or too_long(source) or strange_character(source) is not None:
        return False
    if not is_grammatical(join_lines(source)) or not all(map(_is_known, analysis.commands)):
        return False
    redirecting = [one for one in analysis.commands if any(map(accesses, one.redirects))]
    moves = any(one.name in _MOVING for one in analysis.commands)
    return not (redirecting and moves) and all(redirects_allowed(one, rules, (directory,)) for one in redirecting)


def _is_known(command: ShellCommand) -> bool:
    if command.assignments:
        return False
    if not command.words:
        return True
    inner = peeled(command)
    return never_allowed(inner) is None and worry(inner) is None


def redirects_allowed(command: ShellCommand, rules: CommandRules, directories: Sequence[str]) -> bool:
    """Return whether the rules allow every redirection of a command to access its file, in all its directories."""
    return all(
        _is_literal(redirect) and rules.allow_path(access, redirect.target.resolved or "", directory) is not None
        for redirect in command.redirects
        for access in accesses(redirect)
        for directory in directories
    )


def _is_literal(redirect: Redirect) -> bool:
    target = redirect.target
    return bool(target.resolved) and not target.glob and not target.tilde
