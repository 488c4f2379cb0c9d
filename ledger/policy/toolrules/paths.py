"""Paths of calls and of rules: the tools that path rules govern, and the files that a call may access."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ledger.policy.facts import FileFacts
from ledger.policy.inputs import file_members, named_globs, picked
from ledger.policy.shell.model import Access
from ledger.policy.spelled import UNKNOWN_HOME, is_of_a_process, spelled_paths
from ledger.policy.spelled import absolute as plain_absolute
from ledger.policy.toolrules.rule import ToolRule

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
    return plain_absolute(path, cwd)


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


ACCESS_RULE: Final = {Access.READ: "Read", Access.EDIT: "Edit"}
_PATH_TOOLS: Final = READERS | EDITORS


def is_path_tool(tool: str) -> bool:
    return tool in _PATH_TOOLS


def governs(rule_tool: str, tool: str) -> bool:
    """Return whether a path rule for one tool governs another: `Edit(…)` all that write, `Read(…)` all that read."""
    return rule_tool == tool or (rule_tool == "Edit" and tool in EDITORS) or (rule_tool == "Read" and tool in READERS)


def access_of(tool: str) -> Access:
    return Access.EDIT if tool in EDITORS else Access.READ


def accesses_of(tool: str) -> tuple[Access, ...]:
    """Return the possible accesses of a tool to the files of its input: both for one that is not Claude Code's."""
    return (access_of(tool),) if is_path_tool(tool) else tuple(Access)


def split_root(specifier: str) -> tuple[str, str]:
    """Return the root of a pattern as spelt (`//`, `~/`, `/` or nothing), and the rest.

    The rest has a leading `/` if it is anchored.
    """
    if specifier.startswith("//"):
        return "//", specifier[1:]
    if specifier == "~" or specifier.startswith("~/"):
        return "~/", specifier[1:] or "/"
    if specifier.startswith("/"):
        return "/", specifier
    return "", specifier


def exact_path(tool: str, path: str) -> str:
    """Return the rule of a tool for one absolute path; characters with a meaning in patterns are escaped."""
    escaped = "".join("\\" + character if character in "*?[\\" else character for character in path)
    return f"{tool}(/{escaped})"


def is_access_rule(rule: ToolRule, access: Access) -> bool:
    return rule.tool == ACCESS_RULE[access] and rule.specifier is not None


_GLOBS: Final = {"Glob": "pattern", "Grep": "glob"}
"""The member of a search that selects files by a glob."""


RESTRICTED_FILE: Final = "a rule restricts a file that the call may lead to"


class CallFiles(NamedTuple):
    """The files of a call: absolute paths, and globs that may match more of them."""

    paths: tuple[str, ...]
    globs: tuple[str, ...] = ()
    reason: str | None = None
    """Reason why the file cannot be determined; None if it can."""


def files_of(tool: str, value: Any, base: str, home: str | None, facts: FileFacts) -> CallFiles:
    """Return every file that the input of a tool may lead to from the folder `base`.

    What the members of another tool than those for files mean is unknown: each text may be a file, and none surely is.
    """
    if not is_path_tool(tool):
        texts = named_globs(value)
        return CallFiles((), tuple(form for one in texts for form in spelled_paths(one, base, home, facts)))
    written = file_members(value)
    paths = dict.fromkeys(form for path in written for form in spelled_paths(path, base, home, facts))
    members = value if isinstance(value, Mapping) else {}
    glob, folder = members.get(_GLOBS.get(tool, "")), posixpath.join(base, path_of(tool, value, base) or "")
    texts = picked(glob, is_deep=tool == "Grep") if isinstance(glob, str) else ()
    globs = tuple(form for one in texts for form in spelled_paths(one, folder, home, facts))
    return CallFiles(tuple(paths), globs, _unknown(written, tuple(paths)))


def _unknown(written: Sequence[str], paths: tuple[str, ...]) -> str | None:
    if any("\0" in path for path in written):
        return "the path holds a NUL, and may end there"
    if any(map(is_of_a_process, paths)):
        return "the path is below `/proc/PID`, and is different for every process"
    return None
