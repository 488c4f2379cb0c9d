"""Tokens of globs: a literal character, one character of a set, a run of characters. Each parser is one dialect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_PATTERNS_MAX: Final = 4_096


class CharacterSet(NamedTuple):
    """One character inside the ranges, or outside of them if `negated`. Without ranges, a negated set is any one."""

    negated: bool
    ranges: tuple[tuple[str, str], ...] = ()

    def takes(self, character: str) -> bool:
        """Return whether the set holds a character."""
        return self.negated != any(low <= character <= high for low, high in self.ranges)


class Star(NamedTuple):
    """Any number of characters other than `stop`. Unless `hidden`, it takes no dot at the beginning of a name."""

    stop: str = ""
    hidden: bool = True

    def takes(self, character: str) -> bool:
        """Return whether the character may be one of the run."""
        return character != self.stop


GlobToken = str | CharacterSet | Star
"""A string is one literal character."""

ANY: Final = CharacterSet(negated=True)
STAR: Final = Star()


def takes(token: GlobToken, character: str) -> bool:
    """Return whether a token matches a character."""
    return token == character if isinstance(token, str) else token.takes(character)


def wildcard_tokens(pattern: str, stop: str = "") -> tuple[GlobToken, ...]:
    """Return the tokens of a wildcard: `*` any text, `?` any character; neither takes `stop`."""
    one = CharacterSet(negated=True, ranges=((stop, stop),)) if stop else ANY
    marks: dict[str, GlobToken] = {"*": Star(stop), "?": one}
    return tuple(marks.get(character, character) for character in pattern)


@lru_cache(maxsize=_PATTERNS_MAX)
def name_tokens(pattern: str) -> tuple[GlobToken, ...]:
    r"""Return the tokens of a glob with `*`, `?`, `[a-z]`, `[!a]`, and `\` before a literal character."""
    tokens: list[GlobToken] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        end = pattern.find("]", at + 2) if character == "[" else -1
        if character == "*":
            if tokens[-1:] != [STAR]:
                tokens.append(STAR)
        elif character == "?":
            tokens.append(ANY)
        elif end > 0:
            tokens.append(_set(pattern[at + 1 : end]))
            at = end
        elif character == "\\" and at + 1 < len(pattern):
            at += 1
            tokens.append(pattern[at])
        else:
            tokens.append(character)
        at += 1
    return tuple(tokens)


def _set(body: str) -> CharacterSet:
    negated = body[:1] in ("!", "^")
    body = body[1:] if negated else body
    ranges, at = [], 0
    while at < len(body):
        wide = at + 2 < len(body) and body[at + 1] == "-"
        ranges.append((body[at], body[at + 2 if wide else at]))
        at += 3 if wide else 1
    return CharacterSet(negated, tuple(ranges))


def pieces_of(tokens: Sequence[GlobToken]) -> tuple[list[str], str] | None:
    """Return the literal texts between the stars, and the stop of all stars; None for other patterns."""
    stops = {token.stop for token in tokens if isinstance(token, Star)}
    if len(stops) > 1 or any(isinstance(token, CharacterSet) for token in tokens):
        return None
    pieces = [""]
    for token in tokens:
        if isinstance(token, str):
            pieces[-1] += token
        else:
            pieces.append("")
    return pieces, stops.pop() if stops else ""


class Automaton:
    """A pattern of `length` places. A star takes any number of items, and its place remains reached.

    A state is the set of places that may be next; bit `length` is the end. `start` is the state before the first item.
    """

    def __init__(self, length: int, stars: Iterable[int]) -> None:
        self.stars = sum(1 << place for place in stars)
        self.end = 1 << length
        self.start = self.skip(1)

    def skip(self, state: int) -> int:
        """Add the places that are reached if stars take nothing."""
        while (more := state | (state & self.stars) << 1) != state:
            state = more
        return state

    def after(self, state: int, taken: int) -> int:
        """Return the state after one item; `taken` are the places that take it. Stars that follow are not skipped."""
        found = state & taken
        return (found & ~self.stars) << 1 | found & self.stars

    def onward(self, state: int) -> int:
        """Return the state after items of any kind and number."""
        return (self.end << 1) - (state & -state) if state else 0
