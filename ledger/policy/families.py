"""Families of a command: its words up to the sub-command, or up to the task that it runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ledger.policy.opencode.arity import prefix
from ledger.policy.shell import ShellCommand, analyse
from ledger.policy.shell.facts import command_dangers
from ledger.policy.shell.forms import NormalForm, OperandKind, form_of
from ledger.policy.shell.names import lookups
from ledger.policy.shell.tables import OPAQUE, SHELLS
from ledger.policy.shell.tables.dangers import INTERPRETERS

_NEVER: Final = frozenset({"deletes", "privileges", "unread"})
"""Dangers of a command for which no family is offered."""

_WIDE: Final = frozenset({"runs-downloaded", "secrets"})
_RUNNING: Final = (INTERPRETERS, OPAQUE, SHELLS)


class Family(NamedTuple):
    """The first words of a family of commands. `is_wide`: commands of the family may do much more than this one did."""

    words: str
    is_wide: bool


def families(text: str) -> tuple[Family, ...]:
    """Return the families of one command, the narrowest first; none for a command with a danger of `_NEVER`."""
    analysis = analyse(text)
    if len(analysis.top) != 1:
        return ()
    command = analysis.top[0]
    kinds = {one.kind for one in command_dangers(text, None)}
    if kinds & _NEVER or command.assignments or not command.words:
        return ()
    form = form_of(command)
    risky = bool(kinds & _WIDE) or (form is None and _runs_code(command))
    plain = next((at for at, word in enumerate(command.words) if word.raw != word.resolved), len(command.words))
    ends = [end for end in _ends(command, form) if end <= plain]
    return tuple(
        Family(
            " ".join(word.raw for word in command.words[:end]),
            is_wide=risky or _is_wide(form, end, is_last=end == ends[-1]),
        )
        for end in ends
    )


def _runs_code(command: ShellCommand) -> bool:
    """Return whether the program, for which there is no table, runs any code it is given."""
    return any(name in table for name in lookups(command.name or "") for table in _RUNNING)


def _ends(command: ShellCommand, form: NormalForm | None) -> Iterator[int]:
    """Yield the number of words of each family: with the task that is run, then without."""
    if form is None:
        yield len(prefix([word.raw for word in command.words]))
        return
    end = max(form.path_at, default=0) + 1
    if any(one.kind is OperandKind.TASK and one.at == end for one in form.operands):
        yield end + 1
    yield end


def _is_wide(form: NormalForm | None, end: int, *, is_last: bool) -> bool:
    """Return whether a family is wide: any task of a runner, or a program that the table does not show as read-only."""
    if form is None:
        return end == 1
    runs_tasks = any(
        one.kind in (OperandKind.TASK, OperandKind.SCRIPT, OperandKind.PROGRAM, OperandKind.CODE)
        for one in form.operands
    )
    return (is_last and runs_tasks) or (end == 1 and not form.nodes[-1].is_mild)
