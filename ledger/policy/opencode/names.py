"""The permissions that OpenCode names, and their subjects (opencode.md, "Permission Types")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ledger.core.policy import Rule

PERMISSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read": "reading a file or directory; pattern: its path from the worktree",
        "edit": "changing a file (edit, write, patch, multiedit, apply_patch); pattern: its path from the worktree",
        "glob": "finding files by name; pattern: the glob",
        "grep": "searching in files; pattern: the regular expression",
        "list": "listing a directory; pattern: its path from the worktree",
        "bash": "running a shell command; pattern: the source text of each command of the line",
        "task": "starting a sub-agent; pattern: its name",
        "external_directory": "touching what is outside the project; pattern: the directory and `/*`",
        "todowrite": "writing the list of things to do",
        "todoread": "reading the list of things to do",
        "question": "asking the user a question",
        "webfetch": "fetching a page; pattern: its address",
        "websearch": "searching the web; pattern: the query",
        "codesearch": "searching public code; pattern: the query",
        "lsp": "asking a language server",
        "doom_loop": "going on after the same call was made again and again; pattern: the tool's name",
        "write": "writing a file, besides `edit`, which it asks: a rule that asks or denies counts for this tool too",
    }
)
"""The 16 names of opencode.md, and `write` of opencode-zh.md."""

OTHER_PERMISSIONS: Final = frozenset({"skill", "plan_enter", "plan_exit"})
"""Names that the current program asks for and the pages do not list."""

ACTION_ONLY: Final = frozenset({"todowrite", "question", "webfetch", "websearch", "doom_loop"})
"""Keys that take an action and no object of patterns."""


def unknown_permissions(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return rules whose permission is neither known nor a wildcard. They are valid, but may be typing errors."""
    known = PERMISSIONS.keys() | OTHER_PERMISSIONS
    return tuple(rule for rule in rules if rule.permission not in known and not set("*?") & set(rule.permission))
