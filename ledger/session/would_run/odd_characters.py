"""Marks: spans of a text with misleading characters.

Look-alikes are Unicode's confusables (UTS #39) and compatibility forms, in `confusables.txt` beside this file. A word
in another script is marked if all of it looks like ASCII, or if it is mixed with Latin letters; a word with distinct
letters, such as `привет`, is not.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from typing import Final, Literal

import msgspec

from ledger.core.characters import code_of, is_visible, name_of
from ledger.core.late_patterns import late_pattern

MARKS_COUNT: Final = 500
"""The limit on marks of one text; one more, `crowded`, covers the rest."""

MARKED_CHARS: Final = 10_000
"""The limit on examined characters of one text; a `crowded` mark covers the rest."""

ODD_COUNT: Final = 64
"""The limit on named distinct characters; the rest is counted."""

MarkKind = Literal["invisible", "bidi", "combining", "look-alike", "crowded"]

_ODD: Final = late_pattern(r"[^\n\t -~]")
_PIECE: Final = late_pattern(r"[^\W\d_]+|[\W\d_]+")
_LATIN: Final = late_pattern(r"[A-Za-z]")
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MIXED_SCRIPTS: Final = ("CYRILLIC ", "GREEK ", "ARMENIAN ", "CHEROKEE ", "COPTIC ", "LISU ", "GEORGIAN ")
_STACKED_COUNT: Final = 3
"""Combining marks on one letter that no language needs."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A span of a text, `[start, end, kind]`, in code points; the end is exclusive.

    `invisible`: characters without a glyph. `bidi`: characters that reverse the following text. `combining`: marks
    drawn over the previous letter. `look-alike`: characters that look like ASCII. In a `crowded` span, with too many to
    mark singly, displays write each non-ASCII character as its number.
    """

    start: int
    end: int
    kind: MarkKind


class OddCharacter(msgspec.Struct, frozen=True):
    """A marked character: its number (`U+0430`), its Unicode name, and the ASCII that it looks like."""

    char: str
    code: str
    name: str
    kind: MarkKind
    like: str | None = None


def marks_of(text: str) -> tuple[Mark, ...]:
    """Return the marks of a text in order, adjacent ones of one kind merged. Linear in its length."""
    special = _special(text)
    if not special:
        return ()
    found: list[tuple[int, int, MarkKind]] = []
    for count, (at, kind) in enumerate(_marked(text, special)):
        if count == MARKED_CHARS:
            found.append((at, len(text), "crowded"))
            break
        if found and found[-1][1] == at and found[-1][2] == kind:
            found[-1] = (found[-1][0], at + 1, kind)
        elif len(found) == MARKS_COUNT:
            found.append((at, len(text), "crowded"))
            break
        else:
            found.append((at, at + 1, kind))
    return tuple(Mark(*one) for one in found)


def odd_characters(marked: Iterable[tuple[str, Iterable[Mark]]]) -> tuple[tuple[OddCharacter, ...], int]:
    """Return the distinct marked characters of these texts, and the number of those beyond `ODD_COUNT`."""
    kinds: dict[str, MarkKind] = {}
    for text, marks in marked:
        for mark in marks:
            for one in dict.fromkeys(text[mark.start : mark.end]):
                if mark.kind != "crowded" or _ODD.match(one):
                    kinds.setdefault(one, mark.kind)
    named = [
        OddCharacter(one, code_of(one), name_of(one), kind, look_alikes().get(one))
        for one, kind in islice(kinds.items(), ODD_COUNT)
    ]
    return tuple(named), max(0, len(kinds) - ODD_COUNT)


def _special(text: str) -> frozenset[str]:
    """Return the characters of a text that may have to be marked."""
    if _ODD.search(text) is None:
        return frozenset()
    odd = (one for one in set(text) if _ODD.match(one))
    return frozenset(
        one
        for one in odd
        if one in look_alikes() or not is_visible(one) or _combines(one) or _is_of_a_mixed_script(one)
    )


def _marked(text: str, special: frozenset[str]) -> Iterator[tuple[int, MarkKind]]:
    """Iterate over the marked characters with their positions."""
    base, stacked = "", 0
    for piece in _PIECE.finditer(text):
        word = piece[0]
        if special.isdisjoint(word):
            base, stacked = word[-1], 0
            continue
        mixed = _LATIN.search(word) is not None
        legible = mixed or all(one in special and not _is_foreign(one) for one in word if not one.isascii())
        for at, one in enumerate(word, piece.start()):
            stacked = stacked + 1 if _combines(one) else 0
            kind = _kind(one, base, stacked, is_legible=legible, is_mixed=mixed) if one in special else None
            if kind is not None:
                yield at, kind
            if not stacked:
                base = one


def _is_foreign(one: str) -> bool:
    """Return whether a visible letter looks like no ASCII, so that its word cannot be read as Latin."""
    return one not in look_alikes() and is_visible(one)


def _kind(one: str, base: str, stacked: int, *, is_legible: bool, is_mixed: bool) -> MarkKind | None:
    if one in _BIDI:
        return "bidi"
    if not is_visible(one):
        return "invisible"
    if stacked:
        return "combining" if stacked >= _STACKED_COUNT or _is_latin(base) else None
    if (is_legible and one in look_alikes()) or (is_mixed and _is_of_a_mixed_script(one)):
        return "look-alike"
    return None


@lru_cache(maxsize=4096)
def _combines(one: str) -> bool:
    return unicodedata.category(one) in ("Mn", "Me")


@lru_cache(maxsize=4096)
def _is_latin(base: str) -> bool:
    """Return whether combining marks over it are unexpected: a Latin letter, a sign, or nothing."""
    return not base.isalpha() or unicodedata.name(base, "").startswith("LATIN ")


@lru_cache(maxsize=4096)
def _is_of_a_mixed_script(one: str) -> bool:
    return unicodedata.name(one, "").startswith(_MIXED_SCRIPTS)


@cache
def look_alikes() -> dict[str, str]:
    """Return the signs that look like another one, each with that one."""
    found: dict[str, str] = {}
    for line in files("ledger.session.would_run").joinpath("confusables.txt").read_text(encoding="ascii").splitlines():
        target, tab, codes = line.partition("\t")
        if tab:
            found.update((chr(int(code, 16)), target) for code in codes.split())
    return found
