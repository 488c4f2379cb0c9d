"""The guard of `cd`: a virtual working directory that must not leave the sandbox (codelia.md 7.2)."""

from __future__ import annotations

import posixpath

from ledger.core.late_patterns import late_pattern
from ledger.policy.facts import FileFacts

# Characters that may expand, or end the word elsewhere than at the next space.
_UNSAFE = late_pattern(r"""["'`$&|;<>(){}\[\]*?!~\\]""")


def virtual_cd(segment: str, directory: str, root: str) -> str | None:
    """Return the target of a segment `cd DIR` by its text alone, as Codelia computes it; None for a `cd` to ask about.

    A folder whose name begins with `..` is asked about, as in the program. An option (`cd -P x`, `cd --`) may lead
    home, so it is asked about too, unlike in the program.
    """
    words = [word for word in segment.split(" ") if word]
    if len(words) != 2 or words[1].startswith("-") or _UNSAFE.search(words[1]):
        return None
    target = absolute(words[1], directory)
    return None if posixpath.relpath(target, absolute(root)).startswith("..") else target


def real_cd(target: str, directory: str, root: str, facts: FileFacts) -> str | None:
    """Return the target of `cd` for a word that a shell has parsed, with links followed.

    The shell keeps the logical path (`cd link/..` leads back), so that path is the base of the next `cd`. Neither the
    logical path nor its real target may be outside at any step.
    """
    lexical = absolute(target, directory)
    real_root = facts.resolve(absolute(root))
    roots = (absolute(root), real_root)
    real = (facts.resolve(lexical), facts.resolve(posixpath.join(directory, target)))
    inside = any(_within(lexical, one) for one in roots) and all(_within(path, real_root) for path in real)
    return lexical if inside else None


def absolute(path: str, directory: str = "/") -> str:
    """Return an absolute path without `.`, `..` and double slashes, without file access."""
    return "/" + posixpath.normpath(posixpath.join(directory, path)).lstrip("/")


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
