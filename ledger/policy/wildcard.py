"""Wildcards: `*` is any run of characters, `?` exactly one, everything else itself (opencode-zh.md 4.2, brutus.md).

The whole value must match. A pattern that ends in ` *` also matches without that tail: `git *` matches `git`.
Matching never backtracks. A pattern is cut at its stars; the first piece must stand at the start of the value and the
last at its end, and each piece between is searched once, from the end of the one before. The earliest position is
always sufficient, because a star can match everything that a later position would skip.
"""

from __future__ import annotations

from collections.abc import Callable

Matcher = Callable[[str], bool]
_Anchored = Callable[[str, int], bool]
_Finder = Callable[[str, int, int], int]

_OPTIONAL_TAIL = " *"


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
    if not pattern.endswith(_OPTIONAL_TAIL):
        return _compile(pattern, dot_all=dot_all)
    bare = pattern.removesuffix(_OPTIONAL_TAIL)
    if dot_all and "*" not in bare and "?" not in bare:
        start = bare + " "
        return lambda value: value.startswith(start) or value == bare
    without_tail, with_tail = _compile(bare, dot_all=dot_all), _compile(pattern, dot_all=dot_all)
    return lambda value: without_tail(value) or with_tail(value)


def _compile(pattern: str, *, dot_all: bool) -> Matcher:
    if "*" not in pattern and "?" not in pattern:
        return pattern.__eq__
    if dot_all and not pattern.strip("*"):
        return _everything
    pieces = pattern.split("*")
    if len(pieces) == 1:
        whole, length = _anchored(pattern, dot_all=dot_all), len(pattern)
        return lambda value: len(value) == length and whole(value, 0)
    return _between(pieces[0], [piece for piece in pieces[1:-1] if piece], pieces[-1], dot_all=dot_all)


def _everything(_value: str) -> bool:
    return True


def _between(first: str, middle: list[str], last: str, *, dot_all: bool) -> Matcher:
    if dot_all and not middle and not last and "?" not in first:
        return lambda value: value.startswith(first)
    if dot_all and not middle and not first and "?" not in last:
        return lambda value: value.endswith(last)
    starts, ends = _anchored(first, dot_all=dot_all), _anchored(last, dot_all=dot_all)
    finders = [(_finder(piece, dot_all=dot_all), len(piece)) for piece in middle]
    shortest = len(first) + sum(len(piece) for piece in middle) + len(last)

    def matches(value: str) -> bool:
        if len(value) < shortest:
            return False
        at, end = len(first), len(value) - len(last)
        if not starts(value, 0) or not ends(value, end):
            return False
        for find, length in finders:
            found = find(value, at, end)
            if found < 0 or not (dot_all or _one_line(value, at, found)):
                return False
            at = found + length
        return dot_all or _one_line(value, at, end)

    return matches


def _one_line(value: str, start: int, end: int) -> bool:
    return value.find("\n", start, end) < 0


def _anchored(piece: str, *, dot_all: bool) -> _Anchored:
    """Return a function that tests a piece at a position; the caller ensures that the value is long enough."""
    if "?" not in piece:
        return lambda value, at: value.startswith(piece, at)
    runs: list[tuple[int, str]] = []
    offset = 0
    for run in piece.split("?"):
        if run:
            runs.append((offset, run))
        offset += len(run) + 1
    holes = () if dot_all else tuple(index for index, character in enumerate(piece) if character == "?")

    def stands(value: str, at: int) -> bool:
        return all(value.startswith(run, at + offset) for offset, run in runs) and all(
            value[at + hole] != "\n" for hole in holes
        )

    return stands


def _finder(piece: str, *, dot_all: bool) -> _Finder:
    """Return a function that gives the first position of a piece between two positions, or -1."""
    if "?" not in piece:
        return lambda value, start, end: value.find(piece, start, end)
    return _shift_and(piece, dot_all=dot_all)


def _shift_and(piece: str, *, dot_all: bool) -> _Finder:
    """Find a piece with `?` in one pass: bit n of `state` is set if the first n + 1 characters end here."""
    anything = sum(1 << index for index, character in enumerate(piece) if character == "?")
    places: dict[str, int] = {} if dot_all else {"\n": 0}
    for index, character in enumerate(piece):
        if character != "?":
            places[character] = places.get(character, anything if dot_all or character != "\n" else 0) | 1 << index
    complete = 1 << len(piece) - 1

    def find(value: str, start: int, end: int) -> int:
        state = 0
        for at in range(start, end):
            state = (state << 1 | 1) & places.get(value[at], anything)
            if state & complete:
                return at + 1 - len(piece)
        return -1

    return find


def wildcard_covers(wide: str, narrow: str) -> bool:
    """Return whether one wildcard covers another. A wide pattern with `?` covers only itself: `?` could match a `*`."""
    if wide == narrow:
        return True
    if "?" in wide:
        return False
    matches = compile_normalised(wide)
    return matches(narrow) and (not narrow.endswith(" *") or matches(narrow.removesuffix(" *")))
