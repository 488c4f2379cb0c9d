"""Where an OpenCode instance runs: its directory, its worktree, and what counts as outside of both. Pure."""

from __future__ import annotations

import posixpath
from typing import Final

import msgspec

from ledger.policy.facts import FileFacts, Kind

_ROOT: Final = "/"
_NOWHERE: Final = "/\0"
"""Stands for a working directory that nobody told: relative paths are inside, everything else is outside."""


class Places(msgspec.Struct, frozen=True):
    """`directory` is where the agent was started, `worktree` the root of its repository; both absolute.

    `home` may be unknown. `deep` also follows links: a path that leads outside counts as outside.
    """

    directory: str
    worktree: str
    home: str | None
    facts: FileFacts
    deep: bool
    sandbox: str | None = None

    @classmethod
    def of(
        cls,
        *,
        cwd: str | None,
        worktree: str | None,
        home: str | None,
        facts: FileFacts,
        deep: bool,
        sandbox: str | None = None,
    ) -> Places:
        directory = posixpath.normpath(cwd) if cwd else _NOWHERE
        return cls(directory, posixpath.normpath(worktree) if worktree else directory, home, facts, deep, sandbox)

    def absolute(self, path: str, base: str | None = None) -> str:
        """A path from `base` (the directory unless given) without `.` and `..`; nothing is looked up."""
        return "/" + posixpath.normpath(posixpath.join(base or self.directory, path)).lstrip("/")

    def from_worktree(self, path: str) -> str:
        """The path that a rule sees: relative to the worktree, the worktree itself is the empty string."""
        found = posixpath.relpath(path, self.worktree)
        return "" if found == "." else found

    def outside(self, path: str) -> bool:
        """Whether an absolute path is neither in the directory nor in the worktree.

        Outside of a repository the worktree is `/`, which would hold everything; it is then left out.
        """
        roots = [self.directory] if self.worktree == _ROOT else [self.directory, self.worktree]
        if not any(within(path, root) for root in roots):
            return True
        if not self.deep:
            return False
        led = self.facts.resolve(path)
        return not any(within(led, root) or within(led, self.facts.resolve(root)) for root in roots)

    def is_directory(self, path: str) -> bool:
        return self.facts.kind(path) is Kind.DIRECTORY

    def expand(self, path: str) -> str:
        """`~` and `~/…` with the home directory; unchanged while that is unknown."""
        if self.home is not None and (path == "~" or path.startswith("~/")):
            return self.home.rstrip("/") + path[1:]
        return path

    def enter(self, directory: str, target: str) -> str | None:
        """Where `cd target` leads, links followed; None when that is outside, or not known."""
        path = self.absolute(target, directory)
        led = self.facts.resolve(path)
        roots = [self.directory, self.worktree] if self.worktree != _ROOT else [self.directory]
        if self.sandbox is not None:
            roots.append(self.sandbox)
        if any(within(led, root) or within(led, self.facts.resolve(root)) for root in roots):
            return path
        return None


def within(path: str, folder: str) -> bool:
    """Whether a path is the folder or inside it; both absolute."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def below(folder: str) -> str:
    """The pattern for everything in a directory."""
    return posixpath.join(folder, "*")
