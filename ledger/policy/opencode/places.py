"""The directory and worktree of an OpenCode instance, and the boundary of both. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Final

import msgspec

from ledger.policy.facts import FileFacts, FileKind
from ledger.policy.reach import absolute, within
from ledger.policy.unknown import UNKNOWN_FOLDER, UNKNOWN_HOME, readable

_ROOT: Final = "/"
_REPOSITORY: Final = ".git"


class OpenCodePlaces(msgspec.Struct, frozen=True):
    """The directories of a call.

    `directory` is its own, `worktree` the root of the repository; `roots` count as inside.

    All are absolute; `home` may be unknown. `deep` is for the hardened profile: it also follows links, and a path whose
    links lead outside counts as outside; while the project is unknown, every path does. `sandbox` is a further
    directory that `cd` may enter.
    """

    directory: str
    worktree: str
    roots: tuple[str, ...]
    home: str | None
    facts: FileFacts
    deep: bool
    sandbox: str | None = None

    @classmethod
    def of(
        cls,
        *,
        project: str | None,
        cwd: str | None,
        worktree: str | None,
        home: str | None,
        facts: FileFacts,
        deep: bool,
        sandbox: str | None = None,
    ) -> OpenCodePlaces:
        """Return the places of a call: `project` is the agent's start directory, `cwd` the call's, default the project.

        Without a project the `cwd` is used, except in the hardened profile, where a call must not define its own
        boundary. The default of `worktree` is the repository that `facts` find around the project. A worktree `/` would
        contain every path, so it is no root.
        """
        directory = posixpath.normpath(cwd or project or UNKNOWN_FOLDER)
        start = posixpath.normpath(project) if project else directory
        tree = posixpath.normpath(worktree) if worktree else worktree_of(start, facts)
        roots: tuple[str, ...] = (start,) if tree in (start, _ROOT) else (start, tree)
        if deep and project is None:
            roots = ()
        return cls(directory, tree, roots, home, facts, deep, sandbox)

    def absolute(self, path: str, base: str | None = None) -> str:
        """Return a path from `base` (default: the directory) without `.` and `..`, without file access."""
        return absolute(path, base or self.directory)

    def from_worktree(self, path: str) -> str:
        """Return the path that rules match: relative to the worktree; the worktree itself is the empty string."""
        if within(path, UNKNOWN_HOME):
            return readable(path)
        root = self.worktree + "/"
        if path.startswith(root) and "//" not in path and "/." not in path:
            return path[len(root) :].rstrip("/")
        found = posixpath.relpath(path, self.worktree)
        return "" if found == "." else found

    def outside(self, path: str) -> bool:
        """Return whether an absolute path is in none of the roots."""
        for root in self.roots:
            if within(path, root):
                break
        else:
            return True
        return self.deep and not self._leads_into(self.facts.resolve(path), self.roots)

    def reached(self, path: str, base: str) -> str:
        """Return a path from `base`, or what its links lead to outside the roots (opencode.md "Bash Tool Permission Flow").

        If `deep`, always the path as written: the hardened profile judges both.
        """
        full = self.absolute(path, base)
        resolved = full if self.deep else posixpath.normpath(self.facts.resolve(posixpath.join(base, path)))
        return full if self._leads_into(resolved, self.roots) else resolved

    def _leads_into(self, resolved: str, roots: Iterable[str]) -> bool:
        return any(within(resolved, root) or within(resolved, self.facts.resolve(root)) for root in roots)

    def is_directory(self, path: str) -> bool:
        return self.facts.kind(path) is FileKind.DIRECTORY

    def expand(self, path: str) -> str:
        """Expand `~` and `~/…` to the home directory; an unknown home is in no root."""
        if path == "~" or path.startswith("~/"):
            return (UNKNOWN_HOME if self.home is None else self.home.rstrip("/")) + path[1:]
        return path

    def enter(self, directory: str, target: str) -> str | None:
        """Return the directory that `cd target` enters, links followed; None if it is outside or unknown."""
        path = self.absolute(target, directory)
        roots = self.roots if self.sandbox is None else (*self.roots, self.sandbox)
        return path if self._leads_into(self.facts.resolve(path), roots) else None


def worktree_of(directory: str, facts: FileFacts) -> str:
    """Return the root of the repository that contains a directory; the directory itself if none is known."""
    folder = posixpath.normpath(directory)
    while folder not in (_ROOT, UNKNOWN_FOLDER):
        if facts.kind(f"{folder}/{_REPOSITORY}") is not None:
            return folder
        folder = folder.rpartition("/")[0] or _ROOT
    return directory


def below(folder: str) -> str:
    """Return the pattern for everything in a directory."""
    return posixpath.join(readable(folder), "*")
