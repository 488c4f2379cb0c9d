"""Wildcards: `*` is any run of characters, `?` exactly one, everything else itself (opencode-zh.md 4.2, brutus.md).

The whole value must match. A pattern that ends in ` *` also matches without that tail: `git *` matches `git`.
Matching never backtracks. A pattern of literal texts and stars is cut at its stars; the first piece must stand at the
start of the value and the last at its end, and each piece between is searched once, from the end of the one before. The
earliest position is always sufficient, because a star can match everything that a later position would skip. Other
patterns keep all positions that they may have reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from ledger.policy.matching.tokens import Automaton, GlobToken, Star, name_tokens, pieces_of, takes, wildcard_tokens

Matcher = Callable[[str], bool]

_OPTIONAL_TAIL: Final = " *"
_PATTERNS_MAX: Final = 4_096
_CHARACTERS_MAX: Final = 1_024
"""Characters, at most, whose places in a pattern are kept."""


def match(value: str, pattern: str, *, slashes: bool = True, dot_all: bool = True) -> bool:
    """Return whether `pattern` matches the whole of `value`; see `compile_wildcard`."""
    return compile_wildcard(pattern, slashes=slashes, dot_all=dot_all)(value)


def compile_wildcard(pattern: str, *, slashes: bool = True, dot_all: bool = True) -> Matcher:
    r"""Return a function that tests whether a value matches.

    `slashes=False` keeps `\` apart from `/` (the matcher that opencode-zh.md 4.2 prints, and brutus.md);
    `dot_all=False` keeps `*` and `?` from matching a newline (brutus.md).
    """
    if not slashes:
        return compile_normalised(pattern, dot_all=dot_all)
    matches = compile_normalised(normalise(pattern), dot_all=dot_all)
    return lambda value: matches(normalise(value))


def normalise(text: str) -> str:
    """Replace the separators in paths of every system by `/`."""
    return text.replace("\\", "/")


def compile_normalised(pattern: str, *, dot_all: bool = True) -> Matcher:
    """Compile a pattern, without normalising it or the values."""
    stop = "" if dot_all else "\n"
    return optional_tail(pattern, lambda text: compile_marks(text, stop), stop)


def optional_tail(pattern: str, compiled: Callable[[str], Matcher], stop: str = "") -> Matcher:
    """Compile a pattern, and one that ends in ` *` also without that tail."""
    if not pattern.endswith(_OPTIONAL_TAIL):
        return compiled(pattern)
    bare = pattern.removesuffix(_OPTIONAL_TAIL)
    if not stop and "*" not in bare and "?" not in bare:
        start = bare + " "
        return lambda value: value.startswith(start) or value == bare
    without_tail, with_tail = compiled(bare), compiled(pattern)
    return lambda value: with_tail(value) or without_tail(value)


def compile_marks(pattern: str, stop: str = "") -> Matcher:
    """Compile a pattern of `*` and `?`, neither of which matches `stop`, whose tail is not optional."""
    return compile_tokens(wildcard_tokens(pattern, stop)) if "?" in pattern else compile_stars(pattern, stop)


def compile_stars(pattern: str, stop: str = "") -> Matcher:
    """Compile a pattern in which only `*` is no literal character."""
    return _between(pattern.split("*"), stop)


@lru_cache(maxsize=_PATTERNS_MAX)
def whole_glob(pattern: str) -> Matcher:
    """Compile a pattern of `*` and `?` for the whole text, newlines included, once."""
    return compile_marks(pattern)


@lru_cache(maxsize=_PATTERNS_MAX)
def name_glob(pattern: str) -> Matcher:
    r"""Compile a glob with `*`, `?`, `[a-z]`, `[!a]`, and `\` before a literal character."""
    return compile_tokens(name_tokens(pattern))


def compile_tokens(tokens: Sequence[GlobToken]) -> Matcher:
    """Compile the tokens of a pattern."""
    pieces = pieces_of(tokens)
    if pieces is not None:
        return _between(*pieces)
    stars = [at for at, token in enumerate(tokens) if isinstance(token, Star)]
    if not stars:
        return lambda value: len(value) == len(tokens) and all(map(takes, tokens, value))
    first, last = stars[0], stars[-1] + 1
    beginning, middle, ending = tokens[:first], tokens[first:last], tokens[last:]
    inner = pieces_of(middle)
    between = _positions(middle) if inner is None else _between(*inner)
    fixed = len(beginning) + len(ending)

    def matches(value: str) -> bool:
        end = len(value) - len(ending)
        return (
            len(value) >= fixed
            and all(map(takes, beginning, value))
            and all(map(takes, ending, value[end:]))
            and between(value[first:end])
        )

    return matches


def _positions(tokens: Sequence[GlobToken]) -> Matcher:
    """Return a matcher that keeps all positions that a value may have reached."""
    automaton = Automaton(len(tokens), [at for at, token in enumerate(tokens) if isinstance(token, Star)])
    start, stars, end = automaton.start, automaton.stars, automaton.end
    places: dict[str, int] = {}

    def matches(value: str) -> bool:
        state = start
        for character in value:
            taken = places.get(character)
            if taken is None:
                taken = sum(1 << at for at, token in enumerate(tokens) if takes(token, character))
                if len(places) < _CHARACTERS_MAX:
                    places[character] = taken
            # As `Automaton.after` and `Automaton.skip`, without the calls.
            found = state & taken
            state = (found & ~stars) << 1 | found & stars
            while (more := state | (state & stars) << 1) != state:
                state = more
            if not state:
                return False
        return state & end != 0

    return matches


def everything(_value: str) -> bool:
    """Match every text."""
    return True


def _between(pieces: Sequence[str], stop: str) -> Matcher:
    """Return a matcher of literal texts, with any run of characters other than `stop` between two of them."""
    first, *rest = pieces
    if not rest:
        return first.__eq__
    if not stop and not any(pieces):
        return everything
    middle, last = [piece for piece in rest[:-1] if piece], rest[-1]
    if not stop and not middle and not last:
        return lambda value: value.startswith(first)
    if not stop and not middle and not first:
        return lambda value: value.endswith(last)
    shortest = sum(map(len, pieces))

    def matches(value: str) -> bool:
        if len(value) < shortest or not value.startswith(first) or not value.endswith(last):
            return False
        at, end = len(first), len(value) - len(last)
        for piece in middle:
            found = value.find(piece, at, end)
            if found < 0 or (stop and value.find(stop, at, found) >= 0):
                return False
            at = found + len(piece)
        return at <= end and not (stop and value.find(stop, at, end) >= 0)

    return matches


def wildcard_covers(wide: str, narrow: str) -> bool:
    """Return whether one wildcard covers another. A wide pattern with `?` covers only itself: `?` could match a `*`."""
    if wide == narrow:
        return True
    if "?" in wide:
        return False
    matches = compile_normalised(wide)
    return matches(narrow) and (not narrow.endswith(" *") or matches(narrow.removesuffix(" *")))
