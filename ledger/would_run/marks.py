"""Marks: the spans of a text in which characters are not what they seem.

Look-alikes are those of Unicode's confusables (UTS #39) and compatibility forms, in `confusables.txt` beside this file.
A word in another script is marked where all of it can be read as ASCII, or where it is mixed with Latin letters; a word
with letters of its own, such as `привет`, is what it seems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, Literal

import msgspec

MARKS_COUNT: Final = 500
"""Marks of one text; the next one is `crowded` and covers the rest of it."""

ODD_COUNT: Final = 64
"""Different characters that are named; the rest is counted."""

MarkKind = Literal["invisible", "bidi", "combining", "look-alike", "crowded"]

_ODD: Final = re.compile(r"[^\n\t -~]")
_PIECE: Final = re.compile(r"[^\W\d_]+|.", re.DOTALL)
_LATIN: Final = re.compile(r"[A-Za-z]")
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MIXED_SCRIPTS: Final = ("CYRILLIC ", "GREEK ", "ARMENIAN ", "CHEROKEE ", "COPTIC ", "LISU ", "GEORGIAN ")
_STACKED_COUNT: Final = 3
"""Marks on one letter, as no language needs them."""

# Characters that Unicode calls letters, marks or symbols and that show nothing.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A span of a text, `[start, end, kind]`, in code points; the end is the first one after it.

    `invisible`: characters that show nothing. `bidi`: they turn around what stands after them. `combining`: they draw
    over the letter before them. `look-alike`: they look like ASCII. Each character of a `crowded` span that is not
    ASCII is to be written as its number: there are too many to mark one by one.
    """

    start: int
    end: int
    kind: MarkKind


class OddCharacter(msgspec.Struct, frozen=True):
    """A marked character: its number (`U+0430`), Unicode's name for it, and the ASCII that it looks like."""

    char: str
    code: str
    name: str
    kind: MarkKind
    like: str | None = None


def is_shown(character: str) -> bool:
    """Return whether a character can be seen at all."""
    return character.isprintable() and character not in _BLANK


def marks_of(text: str) -> tuple[Mark, ...]:
    """Return the marks of a text in order; neighbours of one kind are one mark. Linear in its length."""
    if _ODD.search(text) is None:
        return ()
    found: list[Mark] = []
    for start, end, kind in _spans(text):
        if found and found[-1].end == start and found[-1].kind == kind:
            found[-1] = Mark(found[-1].start, end, kind)
        elif len(found) == MARKS_COUNT:
            return (*found, Mark(start, len(text), "crowded"))
        else:
            found.append(Mark(start, end, kind))
    return tuple(found)


def odd_characters(texts: Iterable[str]) -> tuple[tuple[OddCharacter, ...], int]:
    """Return the different characters that are marked in these texts, and how many there are beyond `ODD_COUNT`."""
    kinds: dict[str, MarkKind] = {}
    for text in texts:
        if _ODD.search(text) is not None:
            for start, end, kind in _spans(text):
                for one in text[start:end]:
                    kinds.setdefault(one, kind)
    named = [OddCharacter(one, code_of(one), name_of(one), kind, _alike().get(one)) for one, kind in kinds.items()]
    return tuple(named[:ODD_COUNT]), max(0, len(named) - ODD_COUNT)


def code_of(character: str) -> str:
    """Return a character's number, as Unicode writes it."""
    return f"U+{ord(character):04X}"


def name_of(character: str) -> str:
    """Return Unicode's name of a character; that of its kind where it has none."""
    return unicodedata.name(character, "control character" if ord(character) < 0xA0 else "unnamed character")


def ascii_like(character: str) -> str | None:
    """Return the ASCII that a character beyond it looks like; None for one that looks like none."""
    return _alike().get(character)


def _spans(text: str) -> Iterator[tuple[int, int, MarkKind]]:
    base, stacked = "", 0
    for piece in _PIECE.finditer(text):
        word, start = piece[0], piece.start()
        if not word.isascii() or not word.isprintable():
            mixed = _LATIN.search(word) is not None
            legible = mixed or all(one.isascii() or one in _alike() or not is_shown(one) for one in word)
            for index, one in enumerate(word, start):
                stacked = stacked + 1 if _combines(one) else 0
                kind = _kind(one, base, stacked, is_legible=legible, is_mixed=mixed)
                if kind is not None:
                    yield index, index + 1, kind
                if not stacked:
                    base = one
        else:
            base, stacked = word[-1], 0


def _kind(one: str, base: str, stacked: int, *, is_legible: bool, is_mixed: bool) -> MarkKind | None:
    if one in "\n\t" or " " <= one <= "~":
        return None
    if one in _BIDI:
        return "bidi"
    if not is_shown(one):
        return "invisible"
    if stacked:
        return "combining" if stacked >= _STACKED_COUNT or _is_latin(base) else None
    if (is_legible and one in _alike()) or (is_mixed and _is_of_a_mixed_script(one)):
        return "look-alike"
    return None


@lru_cache(maxsize=4096)
def _combines(one: str) -> bool:
    return unicodedata.category(one) in ("Mn", "Me")


@lru_cache(maxsize=4096)
def _is_latin(base: str) -> bool:
    """Whether nobody expects a mark over it: a Latin letter, a sign, or nothing at all."""
    return not base.isalpha() or unicodedata.name(base, "").startswith("LATIN ")


@lru_cache(maxsize=4096)
def _is_of_a_mixed_script(one: str) -> bool:
    return unicodedata.name(one, "").startswith(_MIXED_SCRIPTS)


@cache
def _alike() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in files("ledger.would_run").joinpath("confusables.txt").read_text(encoding="ascii").splitlines():
        target, tab, codes = line.partition("\t")
        if tab:
            found.update((chr(int(code, 16)), target) for code in codes.split())
    return found
