"""The secrets of one text. Pure, and linear in the text's length.

Characters without a glyph are left out of the search, and compatibility forms (full-width letters, mathematical
letters) become the letters that they stand for: a reader of the log would read the secret all the same.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ledger.core.characters import is_visible
from ledger.masks.shape_tables import SecretShape, broken_shapes, place_shapes, place_words, provider_shapes


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


_KEPT_COUNT: Final = 1024
KEPT_CHARS: Final = 2048
"""The limits of the cache: agents repeat short texts."""

_LONG_CHARS: Final = 2 * 1024 * 1024
_SPAN_CHARS: Final = 128
"""The room for longer texts, which one event holds several times, and what a span counts for in it."""

RUN_CHARS: Final = 16
"""Nearly every token of a provider has a run of so many characters without a sign; few other texts have one."""

_NO_RUN: Final = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_+-")}
_NO_WORD: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class SecretSpan(NamedTuple):
    """The span of a secret in a text, in code points, and its kind; the end is exclusive."""

    start: int
    end: int
    kind: str


def find(text: str) -> tuple[SecretSpan, ...]:
    """Return the secrets of a text in order; none overlaps another."""
    return _find_kept(text) if len(text) <= KEPT_CHARS else _long_texts.find(text)


def joined(found: Iterable[SecretSpan]) -> tuple[SecretSpan, ...]:
    """Return spans in order, those that overlap as one, of the kind that is given first among them."""
    merged: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in sorted((one.start, one.end, rank, one.kind) for rank, one in enumerate(found)):
        if merged and start < merged[-1][1]:
            first, last, best, known = merged[-1]
            merged[-1] = (first, max(last, end), min(best, rank), kind if rank < best else known)
        else:
            merged.append((start, end, rank, kind))
    return tuple(SecretSpan(start, end, kind) for start, end, _, kind in merged)


def candidates(text: str) -> tuple[SecretShape, ...]:
    """Return the shapes of which a text may have a secret; those left out have none in it."""
    return _candidates_kept(text) if len(text) <= KEPT_CHARS else _candidates(text)


def _candidates(text: str) -> tuple[SecretShape, ...]:
    lower = lowered(text)
    has_run = max(map(len, text.translate(_NO_RUN).split()), default=0) >= RUN_CHARS
    found = [shape for shape in (provider_shapes() if has_run else broken_shapes()) if _has_one(shape.words, text)]
    whole, parts = place_words()
    words = whole.intersection(lower.translate(_NO_WORD).split())
    words.update([word for word in parts if word in lower])
    if words:  # few texts have one
        found += [shape for shape in place_shapes() if not words.isdisjoint(shape.words)]
    return tuple(found)


_candidates_kept = lru_cache(_KEPT_COUNT)(_candidates)


def lowered(text: str) -> str:
    """Return a text with its ASCII letters in lower case, each character at its place."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def _find(text: str) -> tuple[SecretSpan, ...]:
    searched = plain(text)
    shapes = candidates(searched.text)
    if not shapes:
        return ()
    lower = lowered(searched.text)
    return joined(
        SecretSpan(*searched.original(start, end), shape.kind)
        for shape in shapes
        for start, end in shape.spans(searched.text, lower if shape.is_folded else searched.text)
    )


_find_kept = lru_cache(_KEPT_COUNT)(_find)


class _LongTexts:
    """The secrets of long texts that were searched last. For any thread: a gateway searches ahead beside its loop."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[SecretSpan, ...]] = {}

    def find(self, text: str) -> tuple[SecretSpan, ...]:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = _find(text)
            # Each step is one that no other thread can divide.
            kept = list(self._known.items())
            excess = sum(_cost_of(*one) for one in kept) - _LONG_CHARS
            for one in kept:
                if excess <= 0:
                    break
                excess -= _cost_of(*one)
                self._known.pop(one[0], None)
        return found


def _cost_of(text: str, found: tuple[SecretSpan, ...]) -> int:
    return len(text) + _SPAN_CHARS * len(found)


_long_texts: Final = _LongTexts()


def _has_one(words: tuple[str, ...], text: str) -> bool:
    for word in words:  # noqa: SIM110 - a generator takes twice as long, before every ask
        if word in text:
            return True
    return False
