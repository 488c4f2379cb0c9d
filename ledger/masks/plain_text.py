"""A text without what hides a secret from a search, with the place of each character in the original. Pure.

Characters without a glyph are left out, and compatibility forms (full-width letters, mathematical letters) become the
letters that they stand for: a reader of the log would read the secret all the same.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from ledger.core.characters import is_visible


class PlainText(NamedTuple):
    """`text` for the search. `places` has the place of each of its characters, and the end; None: the same places."""

    text: str
    places: Sequence[int] | None

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text."""
        return (start, end) if self.places is None else (self.places[start], self.places[end - 1] + 1)


def plain(text: str) -> PlainText:
    """Return a text for the search. Linear in its length."""
    if text.isascii():
        return PlainText(text, None)
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if character.isascii():
            written = character
        elif not is_visible(character) and not character.isspace():
            continue
        else:
            folded = unicodedata.normalize("NFKC", character)
            # Only what becomes ASCII matters to a search for secrets; the rest keeps its place and its length.
            written = folded if folded.isascii() else character
        letters.append(written)
        places.extend([place] * len(written))
    places.append(len(text))
    return PlainText("".join(letters), places)
