"""Harmless forms of builtins that change the shell. All other forms are never allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.variables import HARMLESS, may_be_set

_ASSIGNED = late_pattern(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:=(?P<value>.*))?", re.DOTALL)
_SET = late_pattern(r"[-+][eux]+|[-+][eux]*o|pipefail|errexit|nounset|xtrace")
_READ = late_pattern(r"-[rs]+")
_READ_VALUED = late_pattern(r"-[rs]*[dntp]")
_ENVIRONMENT = late_pattern(r"(?:\./)?(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*+(?:\.venv|venv|\.env|env)/bin/activate")
_NAME = late_pattern(r"[A-Za-z0-9_.+-]+")


def is_harmless_builtin(command: ShellCommand) -> bool:
    """Return whether a command is a builtin in a form that does not affect later commands."""
    shape = _SHAPES.get(command.name or "")
    if shape is None or any(word.glob or word.tilde for word in command.words[1:]):
        return False
    words = [word.resolved for word in command.words[1:]]
    known = [word for word in words if word is not None]
    return len(known) == len(words) and shape(known)


def _export(words: Sequence[str]) -> bool:
    found = [_ASSIGNED.fullmatch(word) for word in words]
    return bool(found) and all(one is not None and one["name"] in HARMLESS for one in found)


def _read(words: Sequence[str]) -> bool:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if _READ_VALUED.fullmatch(words[at]):
            at += 2
        elif _READ.fullmatch(words[at]):
            at += 1
        else:
            return False
    return at < len(words) and all(map(may_be_set, words[at:]))


def _set(words: Sequence[str]) -> bool:
    """Return whether the words are `set -euo pipefail` or part of it, without operands or other options."""
    return bool(words) and words[0].startswith(("-", "+")) and all(map(_SET.fullmatch, words))


def _source(words: Sequence[str]) -> bool:
    return len(words) == 1 and _ENVIRONMENT.fullmatch(words[0]) is not None


def _looks_up(words: Sequence[str]) -> bool:
    """Return whether the words are those of `command -v NAME`, which only looks up names."""
    return len(words) > 1 and words[0] in ("-v", "-V") and all(map(_NAME.fullmatch, words[1:]))


_SHAPES: Final[dict[str, Callable[[Sequence[str]], bool]]] = {
    "export": _export,
    "read": _read,
    "set": _set,
    "source": _source,
    ".": _source,
    "command": _looks_up,
}
