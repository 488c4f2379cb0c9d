"""The guard of `cd`: a virtual working directory that may not leave the sandbox (codelia.md 7.2)."""

from __future__ import annotations

import posixpath
import re

from ledger.policy.facts import FileFacts

# What may expand, or end the word elsewhere than at the next space.
_UNSAFE = re.compile(r"""["'`$&|;<>(){}\[\]*?!~\\]""")


def virtual_cd(segment: str, directory: str, root: str) -> str | None:
    """Where a segment `cd DIR` leads by its text alone, as Codelia reckons; None for anything that must be asked.

    A folder whose name begins with `..` is asked, as the program does. An option (`cd -P x`, `cd --`) may lead home,
    so it is asked, which the program does not do.
    """
    words = [word for word in segment.split(" ") if word]
    if len(words) != 2 or words[1].startswith("-") or _UNSAFE.search(words[1]):
        return None
    target = absolute(words[1], directory)
    return None if posixpath.relpath(target, absolute(root)).startswith("..") else target


def real_cd(target: str, directory: str, root: str, facts: FileFacts) -> str | None:
    """As `virtual_cd` for a word that a shell has read, with links followed.

    The shell keeps the path as it was walked (`cd link/..` leads back), so that is what counts for the next `cd`; on
    the way neither that path nor where it really leads may be outside.
    """
    lexical = absolute(target, directory)
    real_root = facts.resolve(absolute(root))
    roots = (absolute(root), real_root)
    real = (facts.resolve(lexical), facts.resolve(posixpath.join(directory, target)))
    inside = any(_within(lexical, one) for one in roots) and all(_within(path, real_root) for path in real)
    return lexical if inside else None


def absolute(path: str, directory: str = "/") -> str:
    """An absolute path without `.`, `..` and double slashes; nothing is looked up."""
    return "/" + posixpath.normpath(posixpath.join(directory, path)).lstrip("/")


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
