"""Objections of a table to a command when no rule spells any of its words."""

from __future__ import annotations

from typing import Final

from ledger.policy.shell.forms.nodes import Effect, OperandKind
from ledger.policy.shell.forms.objections import Reach, Spelled, obstacle
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.tables import is_protected

_HARMLESS: Final = frozenset({Effect.PLAIN, Effect.READ, Effect.URL})
_GUARDED: Final = frozenset(
    {OperandKind.CODE, OperandKind.SCRIPT, OperandKind.PROGRAM, OperandKind.WRITE, OperandKind.EDIT}
)


def worries(line: str) -> list[str]:
    """Return the words that only a rule for files or one that spells them allows; empty for a harmless command."""
    form = form_of(lex(line).commands[0])
    if form is None:
        return [f"no table for `{line}`"]
    found = [one.reason for one in form.unclear]
    found += [f"{node.name}: only where it is spelled" for node in form.nodes if node.spell or node.always]
    found += [f"{one.effect}: {one.name}" for one in form.options if one.effect not in _HARMLESS]
    found += [f"{one.kind}: {one.text}" for one in form.operands if one.kind in _GUARDED]
    found += [] if form.inner is None else [f"it runs `{form.inner.text}`"]
    return found


class Project(Reach):
    """Relative paths are inside of the project; where `editable`, rules let all of them be changed."""

    def __init__(self, *, editable: bool) -> None:
        self.are_editable = editable

    def outside(self, path: str) -> bool:
        return path.startswith(("/", "~", "..")) and path != "/dev/null"

    def protected(self, path: str) -> bool:
        return is_protected(path)

    def editable(self, path: str) -> bool:
        return self.are_editable and not self.outside(path)

    def overwrites(self, path: str) -> bool:
        return False

    def allows(self, command: ShellCommand) -> bool:
        return False


def obstacle_of(line: str, rule: str = "", *, editable: bool = False) -> str | None:
    """Return why a rule (one for the program, unless given) does not cover a command; None where it does."""
    command = lex(line).commands[0]
    words = (rule or f"{command.words[0].raw} *").split()
    return obstacle(command, form_of(command), Spelled(words, command.words), Project(editable=editable))
