"""Commands and files of other agents in the terms of the ledger's rules. No I/O."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_SHELLS: Final = frozenset({"bash", "zsh", "sh"})
_SCRIPT_OPTIONS: Final = frozenset({"-c", "-lc"})
_SHELL_WORDS: Final = 3
_WILDCARDS: Final = ("*", "?")


class FileChange(NamedTuple):
    """A file that is written or deleted, and its new path if it is moved."""

    path: str
    moved_to: str | None = None


def script_of(command: str | Sequence[str]) -> str:
    """Return the script that a shell would run: `git push` for `/bin/bash -lc 'git push'`, else the command itself."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError:
        return str(command)
    is_shell = len(words) == _SHELL_WORDS and os.path.basename(words[0]) in _SHELLS  # noqa: PTH119 - no path of ours
    if is_shell and words[1] in _SCRIPT_OPTIONS:
        return words[2]
    return command if isinstance(command, str) else shlex.join(words)


def exactly(text: str) -> tuple[str, ...]:
    """Return the grant of exactly this text; none if the text as a pattern would match more."""
    return () if not text or any(one in text for one in _WILDCARDS) else (text,)


def edit_of(changes: Sequence[FileChange]) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and the input that stand for these changes; None if a path cannot be written down."""
    paths = [path for change in changes for path in change if path is not None]
    if not paths or any(path != path.strip() or not path.isprintable() for path in paths):
        return None
    if len(paths) == 1:
        return "edit", {"filePath": paths[0]}
    lines = ["*** Begin Patch"]
    for change in changes:
        lines.append(f"*** Update File: {change.path}")
        lines += [] if change.moved_to is None else [f"*** Move to: {change.moved_to}"]
    return "apply_patch", {"patchText": "\n".join([*lines, "*** End Patch"])}
