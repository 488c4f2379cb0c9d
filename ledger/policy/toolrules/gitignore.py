"""Overlap of shell globs with .gitignore patterns. For deny and ask rules only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ledger.policy.overlap import UNKNOWN, is_glob, meets, word_tokens
from ledger.policy.toolrules.globs import PathMatcher, ignore_glob, ignored_names, name_tokens, skip_any

_ANY: Final = "**"
_PATTERNS_MAX: Final = 4_096


def ignore_reaches(pattern: str) -> PathMatcher:
    """Compile as `ignore_glob`, for a path that may be a shell glob."""
    matches = ignore_glob(pattern)
    return lambda path: matches(path) or (is_glob(path) and ignore_meets(pattern)(path))


@lru_cache(maxsize=_PATTERNS_MAX)
def ignore_meets(pattern: str) -> PathMatcher:
    """Compile as `ignore_glob`, for a path that is a shell glob.

    A folder that only a wildcard of the path matches counts for a pattern of folders (`secret/**`, `secret`), not for
    one of files (`*.pem`): `src/*/a.ts` may be in `src/secret`, and hardly in a folder `x.pem`.
    """
    names = ignored_names(pattern)
    if not names:
        return lambda _path: names is not None
    folder = pattern.endswith(("/", "/**")) or "." not in names[-1][1:]
    return lambda path: _meet(names, path.casefold().split("/"), folder=folder)


def _meet(pattern: Sequence[str], names: Sequence[str], *, folder: bool) -> bool:
    reached = {0}
    for index, name in enumerate(names):
        reached = skip_any(pattern, reached)
        if index and len(pattern) in reached and (folder or not is_glob(names[index - 1])):
            return True
        reached = _after(pattern, reached, name)
    return len(pattern) in reached


def _after(pattern: Sequence[str], reached: set[int], name: str) -> set[int]:
    """Return the positions in the pattern after one more name."""
    if name == _ANY:
        return _after_folders(pattern, reached)
    if UNKNOWN in name:
        reached = {*range(min(reached, default=len(pattern)), len(pattern))}
        name = UNKNOWN + name.rpartition(UNKNOWN)[2]
    return {
        place if pattern[place] == _ANY else place + 1
        for place in reached
        if place < len(pattern) and _takes(pattern[place], name)
    }


def _after_folders(pattern: Sequence[str], reached: set[int]) -> set[int]:
    """Return the positions after any number of names, none of which begins with a dot."""
    found, more = set(reached), reached
    while more:
        more = skip_any(pattern, _after(pattern, more, "*")) - found
        found |= more
    return found


def _takes(pattern: str, name: str) -> bool:
    return pattern == _ANY or meets(name_tokens(pattern), word_tokens(name))
