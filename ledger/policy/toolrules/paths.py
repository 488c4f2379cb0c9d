"""Resolution of the paths of rules and calls: `~`, `..`, the working directory, and links."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

from ledger.policy.facts import FileFacts
from ledger.policy.unknown import UNKNOWN_HOME

PATH_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Read": ("file_path", "path"),
    "Edit": ("file_path", "path"),
    "Write": ("file_path", "path"),
    "MultiEdit": ("file_path", "path"),
    "NotebookRead": ("notebook_path", "path"),
    "NotebookEdit": ("notebook_path", "path"),
    "Grep": ("path",),
    "Glob": ("path",),
    "LS": ("path",),
}
"""Tools that take a path, and the members of their input that may hold it."""

READERS: Final = frozenset({"Read", "NotebookRead", "Grep", "Glob", "LS"})
EDITORS: Final = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
SEARCHERS: Final = frozenset({"Grep", "Glob", "LS"})


def absolute(path: str, cwd: str, home: str | None) -> str:
    """Return an absolute path without `.`, `..` and double slashes, without file access. `~` may be an unknown home."""
    if path == "~" or path.startswith("~/"):
        path = (UNKNOWN_HOME if home is None else home) + path[1:]
    joined = posixpath.normpath(posixpath.join(cwd, path))
    return "/" + joined.lstrip("/")


def within(path: str, folder: str) -> bool:
    """Return whether a path is the folder itself or inside it. Both are absolute."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def relative(path: str, root: str) -> str | None:
    """Return the path relative to a root; None if it is not inside. The root itself is the empty string."""
    if path == root:
        return ""
    base = root.rstrip("/") + "/"
    return path[len(base) :] if path.startswith(base) else None


def path_of(tool: str, value: Any, cwd: str) -> str | None:
    """Return the path in a file tool's input as written; the working directory for a search without one."""
    if isinstance(value, Mapping):
        for field in PATH_FIELDS.get(tool, ()):
            if isinstance(path := value.get(field), str) and path:
                return path
    return cwd if tool in SEARCHERS else None


def both_forms(path: str, facts: FileFacts) -> tuple[str, ...]:
    """Return a path as written, and with its links followed if that differs."""
    resolved = facts.resolve(path)
    return (path,) if resolved == path else (path, resolved)
