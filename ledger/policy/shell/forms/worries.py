"""Dangers of a command that are checked before any rule. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ledger.policy.shell.danger import dangerous_argument
from ledger.policy.shell.forms.objections import obstacle
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.forms.spelled import Spelled
from ledger.policy.shell.model import ShellCommand


class _Everywhere:
    """A stand-in without information about files: no path is an obstacle."""

    def outside(self, path: str) -> bool:
        return False

    def editable(self, path: str) -> bool:
        return True

    def allows(self, command: ShellCommand) -> bool:
        return False


_EVERYWHERE: Final = _Everywhere()


def worry(command: ShellCommand) -> str | None:
    """Return why only a rule that spells the command may cover it, wherever it runs: a sentence, or None.

    Judged by the table of its program, or by the listed dangerous arguments if it has none. Words whose value is known
    only when the line runs are judged by the list alone.
    """
    form = form_of(command)
    unknown = {at for at, word in enumerate(command.words) if word.resolved is None}
    listed = dangerous_argument(command) if form is None or unknown else None
    if form is None or listed is not None:
        return listed
    known = replace(
        form,
        unclear=tuple(one for one in form.unclear if one.at not in unknown),
        operands=tuple(replace(one, is_known=True) for one in form.operands),
    )
    return obstacle(command, known, Spelled((), command.words), _EVERYWHERE)
