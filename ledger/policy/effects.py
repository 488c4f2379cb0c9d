"""The effect of a call: how far it can be taken back. A fact for people, by which rules may demand more; never a yes.

Made from the call alone. What is not known to have a milder effect is irreversible.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ledger.core.policy import EFFECTS, Call, CallEffect

_READING: Final = frozenset({"read", "glob", "grep", "ls", "list", "webfetch", "websearch", "todoread", "notebookread"})
_EDITING: Final = frozenset({"edit", "write", "multiedit", "notebookedit"})
_PATH_MEMBERS: Final = ("file_path", "filePath", "notebook_path", "path")


def effect_of(call: Call) -> CallEffect:
    """Return the effect of a call."""
    tool = (call.tool_name or call.permission).lower()
    if tool in _READING:
        return "reads"
    if tool in _EDITING:
        return highest(_of_file(path, call.cwd) for path in _paths(call.input) or call.patterns or ("",))
    return "irreversible"


def highest(effects: Iterable[CallEffect]) -> CallEffect:
    """Return the worst of several effects; `reads` for none."""
    return max(effects, key=EFFECTS.index, default="reads")


def _paths(given: Any) -> list[str]:
    return [given[name] for name in _PATH_MEMBERS if name in given] if isinstance(given, Mapping) else []


def _of_file(path: Any, folder: str | None) -> CallEffect:
    """Return the effect of a change of a file, which git brings back in the folder, but not in its own `.git`."""
    if not isinstance(path, str) or not path or folder is None:
        return "irreversible"
    inside = posixpath.relpath(posixpath.join(folder, path), folder).split("/")
    return "irreversible" if ".." in inside or ".git" in map(str.lower, inside) else "changes_here"
