"""The operands of a call: the files that its shell lines execute or read as a program. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from ledger.core.limits import OPERAND_COUNT
from ledger.core.operands import WantedOperand
from ledger.core.policy import Call

SHELL_PERMISSIONS: Final = frozenset({"bash", "shell", "run_command", "execute", "terminal"})
"""Permissions whose patterns are shell lines."""

SHELL_TOOLS: Final = SHELL_PERMISSIONS | {
    "sh", "zsh", "powershell", "exec", "exec_command", "local_shell", "run_shell_command", "run", "bashtool",
}  # fmt: skip
"""Tools and permissions that run a shell line."""

_LINES: Final = ("command", "cmd", "script")
_FOLDERS: Final = ("workdir", "cwd", "directory", "dir_path")
_KEPT_COUNT: Final = 64


def operands_wanted(call: Call, home: str | None = None) -> tuple[WantedOperand, ...]:
    """Return the files that a call executes or reads as a program; none for a call that runs no shell line.

    `call.cwd` is the folder in which it runs, `home` the agent's home; both of the machine where it runs.
    """
    if call.permission.casefold() not in SHELL_TOOLS and (call.tool_name or "").casefold() not in SHELL_TOOLS:
        return ()
    folder = folder_of(call)
    found = dict.fromkeys(one for line in lines_of(call) for one in _in_line(line, folder, home))
    return tuple(found)[:OPERAND_COUNT]


@lru_cache(maxsize=_KEPT_COUNT)  # an ask, its claim and the gateway look at the same line
def _in_line(line: str, folder: str | None, home: str | None) -> tuple[WantedOperand, ...]:
    # With the analysis of shell lines it takes long to import, and an answer to a settled request needs none of it.
    from ledger.policy.shell.operands import wanted_operands  # noqa: PLC0415

    return wanted_operands(line, folder, home)


def lines_of(call: Call) -> Iterator[str]:
    """Yield the lines of the input, else the patterns, which are commands then."""
    if not isinstance(call.input, Mapping):
        yield from call.patterns
        return
    for name in _LINES:
        value: Any = call.input.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            yield shlex.join(value)


def folder_of(call: Call) -> str | None:
    """Return the folder of the call: the one that its input names, relative to the agent's."""
    given = call.input if isinstance(call.input, Mapping) else {}
    named = next((given[name] for name in _FOLDERS if isinstance(given.get(name), str) and given[name]), None)
    if named is None:
        return call.cwd
    if not named.startswith("/") and call.cwd is None:
        return None
    return posixpath.normpath(posixpath.join(call.cwd or "/", named))
