"""Path patterns as in .gitignore: `*` and `?` inside one name, `**` for any number of folders, `[…]` one character.

Backtracking is at most one star deep: patterns and paths are cut into names, and each pair is compared once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

PathMatcher = Callable[[str], bool]
"""A predicate on a path relative to the pattern's root."""

GlobToken = str | tuple[bool, tuple[tuple[str, str], ...]]
"""`*`, `?`, a set of characters, or a backslash and a literal character."""

_ANY: Final = "**"
_PATTERNS_MAX: Final = 4_096


@lru_cache(maxsize=_PATTERNS_MAX)
def exact_glob(pattern: str) -> PathMatcher:
    """Compile a case-sensitive pattern of the whole path: `src/**/*.ts` is not `lib/src/a.ts`.

    `**` also matches no folder.
    """
    names = tuple(name for name in pattern.split("/") if name not in ("", "."))
    return lambda path: _names_match(names, path.split("/"), inside=False)


@lru_cache(maxsize=_PATTERNS_MAX)
def ignore_glob(pattern: str) -> PathMatcher:
    """Compile a pattern as .gitignore defines it, ignoring case; a matching folder matches with everything inside it.

    A pattern without `/`, apart from a final `/` or `/**`, matches at any depth.
    """
    names = ignored_names(pattern)
    if not names:
        return _nothing if names is None else _everything
    folder = pattern.endswith("/")

    def matches(path: str) -> bool:
        parts = path.casefold().split("/")
        return _names_match(names, parts[:-1] if folder else parts, inside=True)

    return matches


def ignored_names(pattern: str) -> tuple[str, ...] | None:
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


def _everything(_path: str) -> bool:
    return True


def _nothing(_path: str) -> bool:
    return False


def _names_match(pattern: Sequence[str], names: Sequence[str], *, inside: bool) -> bool:
    """Return whether the names match; with `inside`, whether the path or one of its folders matches."""
    reached = {0}
    for index, name in enumerate(names):
        reached = skip_any(pattern, reached)
        if inside and index and len(pattern) in reached:
            return True
        reached = {
            place if pattern[place] == _ANY else place + 1
            for place in reached
            if place < len(pattern) and (pattern[place] == _ANY or name_matches(pattern[place], name))
        }
    # `**` at the end of a .gitignore pattern matches the contents, not the folder itself.
    return len(pattern) in (reached if inside else skip_any(pattern, reached))


def skip_any(pattern: Sequence[str], reached: set[int]) -> set[int]:
    """Return every position reachable by letting `**` match no name."""
    places = set(reached)
    for place in sorted(reached):
        at = place
        while at < len(pattern) and pattern[at] == _ANY:
            at += 1
            places.add(at)
    return places


def name_matches(pattern: str, name: str) -> bool:
    r"""Match a name with `*`, `?`, `[a-z]`, `[!a]`, and `\` before a literal character; time is pattern times name."""
    tokens = name_tokens(pattern)
    at = place = 0
    star = resume = -1
    while at < len(name):
        piece = tokens[place] if place < len(tokens) else None
        if piece == "*":
            star, resume = place, at
            place += 1
        elif piece is not None and takes(piece, name[at]):
            place += 1
            at += 1
        elif star >= 0:
            resume += 1
            place, at = star + 1, resume
        else:
            return False
    return all(piece == "*" for piece in tokens[place:])


def takes(piece: GlobToken, character: str) -> bool:
    """Return whether a token other than a star matches a character."""
    if isinstance(piece, tuple):
        negated, ranges = piece
        return negated != any(low <= character <= high for low, high in ranges)
    return piece == "?" or piece == "\\" + character


@lru_cache(maxsize=_PATTERNS_MAX)
def name_tokens(pattern: str) -> tuple[GlobToken, ...]:
    """Return the tokens of one name of a pattern."""
    tokens: list[GlobToken] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        end = pattern.find("]", at + 2) if character == "[" else -1
        if character in "*?":
            if not (character == "*" and tokens and tokens[-1] == "*"):
                tokens.append(character)
        elif end > 0:
            tokens.append(_set(pattern[at + 1 : end]))
            at = end
        elif character == "\\" and at + 1 < len(pattern):
            at += 1
            tokens.append("\\" + pattern[at])
        else:
            tokens.append("\\" + character)
        at += 1
    return tuple(tokens)


def _set(body: str) -> tuple[bool, tuple[tuple[str, str], ...]]:
    negated = body[:1] in ("!", "^")
    body = body[1:] if negated else body
    ranges, at = [], 0
    while at < len(body):
        if at + 2 < len(body) and body[at + 1] == "-":
            ranges.append((body[at], body[at + 2]))
            at += 3
        else:
            ranges.append((body[at], body[at]))
            at += 1
    return negated, tuple(ranges)
