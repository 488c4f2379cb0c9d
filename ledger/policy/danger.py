"""Dangerous calls, as used in demands: shell lines that do more than their text plainly shows. Pure.

A heuristic over texts, and conservative: a line that cannot be parsed to its end is dangerous.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.core.policy import Call
from ledger.policy.operands import SHELL_PERMISSIONS
from ledger.policy.shell.analyse import analyse_simple
from ledger.policy.shell.danger import never_allowed
from ledger.policy.shell.forms.objections import worry

_DESTRUCTIVE: Final = frozenset(
    {"rm", "rmdir", "shred", "dd", "mkfs", "truncate", "sudo", "su", "doas", "chmod", "chown"}
)


def is_dangerous(call: Call) -> bool:
    """Return whether a call is a shell line that is not plain, deletes, or runs code that its text does not show."""
    if call.permission.lower() not in SHELL_PERMISSIONS:
        return False
    lines = {*call.patterns, *_command_of(call.input)}
    return not lines or any(_line_is_dangerous(line) for line in lines)


def _command_of(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, Mapping) else {}
    return tuple(given[name] for name in ("command", "cmd") if isinstance(given.get(name), str))


def _line_is_dangerous(line: str) -> bool:
    found = analyse_simple(line)
    if found.cut or not found.plain:
        return True
    return any(
        command.name is None
        or command.name.rpartition("/")[2] in _DESTRUCTIVE
        or never_allowed(command) is not None
        or worry(command) is not None
        for command in found.commands
    )
