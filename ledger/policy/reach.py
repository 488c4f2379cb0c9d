"""Detection of paths in commands that lead out of the project. Pure; facts about links are passed in."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from ledger.policy.facts import FileFacts
from ledger.policy.unknown import UNKNOWN_FOLDER


def leads_out(path: str, directory: str, roots: Sequence[str], facts: FileFacts, home: str | None = None) -> bool:
    """Return whether a path is outside of all roots, as written or after following its links.

    `directory` is the working directory of the command. While no root is known, only a relative path that does not
    climb is inside. A `~` that is not the known home is outside.
    """
    if path == "~" or path.startswith("~/"):
        if home is None:
            return True
        path = home + path[1:]
    elif path.startswith("~"):
        return True
    known = [root for root in roots if root != UNKNOWN_FOLDER]
    if not known or directory.startswith(UNKNOWN_FOLDER):
        return path.startswith("/") or ".." in path.split("/")
    written = posixpath.join(directory, path)
    lexical = "/" + posixpath.normpath(written).lstrip("/")
    if "/proc/" in lexical + "/":
        return True
    real = {facts.resolve(lexical), facts.resolve(written)} if ".." in path.split("/") else {facts.resolve(lexical)}
    resolved = [facts.resolve(root) for root in known]
    return not (_within_one(lexical, known) and all(_within_one(one, resolved) for one in real))


def within(path: str, folder: str) -> bool:
    """Return whether a path is the folder itself or inside it. Both are absolute."""
    return path == folder or path.startswith(folder if folder[-1:] == "/" else folder + "/")


def absolute(path: str, directory: str = "/") -> str:
    """Return an absolute path without `.`, `..` and double slashes, without file access."""
    return "/" + posixpath.normpath(path if path[:1] == "/" else f"{directory}/{path}").lstrip("/")


def _within_one(path: str, roots: Sequence[str]) -> bool:
    return any(within(path, root) for root in roots)
