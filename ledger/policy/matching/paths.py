"""Path patterns as in .gitignore: `*` and `?` inside one name, `**` for any number of folders, `[…]` one character.

Patterns and paths are cut into names; each pair of names is compared once. A path of a deny or ask rule may also be a
shell glob, see `ignore_meets`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from ledger.policy.matching.wildcard import (
    UNKNOWN,
    Automaton,
    Matcher,
    is_glob,
    meets,
    name_glob,
    name_tokens,
    word_tokens,
)

PathMatcher = Callable[[str], bool]
"""A predicate on a path relative to the pattern's root."""

_ANY: Final = "**"
_PATTERNS_MAX: Final = 4_096


@lru_cache(maxsize=_PATTERNS_MAX)
def exact_glob(pattern: str) -> PathMatcher:
    """Compile a case-sensitive pattern of the whole path: `src/**/*.ts` is not `lib/src/a.ts`.

    `**` also matches no folder.
    """
    names = _Names(tuple(name for name in pattern.split("/") if name not in ("", ".")))

    def matches(path: str) -> bool:
        state = names.start
        for name in path.split("/"):
            state = names.skip(names.after_name(state, name))
            if not state:
                return False
        return state & names.end != 0

    return matches


@lru_cache(maxsize=_PATTERNS_MAX)
def ignore_glob(pattern: str) -> PathMatcher:
    """Compile a pattern as .gitignore defines it, ignoring case; a matching folder matches with everything inside it.

    A pattern without `/`, apart from a final `/` or `/**`, matches at any depth.
    """
    found = _ignored_names(pattern)
    if not found:
        return lambda _path: found is not None
    names, folder = _Names(found), pattern.endswith("/")

    def matches(path: str) -> bool:
        parts = path.casefold().split("/")
        return names.begin(parts[:-1] if folder else parts, names.after_name, lambda _folder: True)

    return matches


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
    found = _ignored_names(pattern)
    if not found:
        return lambda _path: found is not None
    names = _Names(found)
    folder = pattern.endswith(("/", "/**")) or "." not in found[-1][1:]
    return lambda path: names.begin(
        path.casefold().split("/"), names.after_glob, lambda name: folder or not is_glob(name)
    )


def _ignored_names(pattern: str) -> tuple[str, ...] | None:
    """Return the names of a .gitignore pattern from its root, `**` among them, without case.

    An empty tuple stands for a pattern that matches everything, None for one that matches nothing.
    """
    text = pattern.removeprefix("./").casefold()
    if text.startswith(("!", "#")):
        return None
    if text in (_ANY, "*"):
        return ()
    body = text.removesuffix("/**").rstrip("/")
    names = tuple(name for name in body.split("/") if name not in ("", "."))
    return names if not names or "/" in body else (_ANY, *names)


class _Names(Automaton):
    """A pattern of names, in which `**` is a star."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(len(names), [place for place, name in enumerate(names) if name == _ANY])
        self._names = names
        self._matchers: list[Matcher] = [name_glob("*" if name == _ANY else name) for name in names]

    def begin(self, names: Sequence[str], after: Callable[[int, str], int], counts: Callable[[str], bool]) -> bool:
        """Return whether the pattern matches all names, or the first ones of them up to a folder that counts.

        `**` at the end of a pattern matches the contents of a folder, not the folder itself.
        """
        state = 1
        for index, name in enumerate(names):
            state = self.skip(state)
            if index and state & self.end and counts(names[index - 1]):
                return True
            state = after(state, name)
            if not state:
                return False
        return state & self.end != 0

    def after_name(self, state: int, name: str) -> int:
        """Return the state after a name."""
        taken = 0
        for place, matches in enumerate(self._matchers):
            if state >> place & 1 and matches(name):
                taken |= 1 << place
        return self.after(state, taken)

    def after_glob(self, state: int, name: str) -> int:
        """Return the state after one of the names that a part of a shell glob stands for."""
        if name == _ANY:
            found = state
            while (more := found | self.skip(self.after_glob(found, "*"))) != found:
                found = more
            return found
        if UNKNOWN in name:
            state = self.onward(state) & ~self.end
            name = UNKNOWN + name.rpartition(UNKNOWN)[2]
        word, taken = word_tokens(name), self.stars
        for place, pattern in enumerate(self._names):
            if state >> place & 1 and pattern != _ANY and meets(name_tokens(pattern), word):
                taken |= 1 << place
        return self.after(state, taken)
