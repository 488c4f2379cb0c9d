"""Characters that are drawn as nothing, and names that differ in their characters alone. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

# Letters, marks and symbols that are drawn as nothing despite their category.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)


def is_visible(character: str) -> bool:
    """Return whether a character is the space or has a glyph of its own.

    Controls, line breaks and TAB, other spaces, format and unassigned characters have none. Python's Unicode version
    decides which are assigned.
    """
    return character.isprintable() and character not in _BLANK


def code_of(character: str) -> str:
    """Return a character's number in Unicode notation."""
    return f"U+{ord(character):04X}"


def name_of(character: str) -> str:
    """Return the Unicode name of a character, or that of its kind if it has none."""
    return unicodedata.name(character, "control character" if ord(character) < 0xA0 else "unnamed character")


def person_key(name: str) -> str:
    """Return the key under which a person counts once: without case, outer blanks, and other forms of the same letters.

    A provider may let a person change their own name, and a second spelling of it must not be a second person.
    """
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
