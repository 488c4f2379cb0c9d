"""An index of wildcards by literal text: the candidates for a match, found without trying every pattern. Pure.

A pattern is filed under one literal text that every match must contain: its own beginning, or, if that is missing or
shared by many, the piece of `GRAM_CHARS` characters that the fewest patterns have. The result is a superset of the
matches, in the order of the patterns, so that the last match can be searched one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern

PREFIX_CHARS_MAX: Final = 24
SHARED_PREFIX_COUNT_MAX: Final = 8
GRAM_CHARS: Final = 3
INDEXED_TEXT_CHARS_MAX: Final = 1_024
"""Longer texts are not cut into pieces, since that costs more than it saves."""

_WILD: Final = late_pattern(r"[*?]")
_OPTIONAL_TAIL: Final = " *"


class RuleIndex:
    """Positions of patterns by a text that every match contains; patterns and texts are normalised."""

    def __init__(self, patterns: Sequence[str]) -> None:
        runs = [_WILD.split(pattern.removesuffix(_OPTIONAL_TAIL)) for pattern in patterns]
        beginnings = [pieces[0][:PREFIX_CHARS_MAX] for pieces in runs]
        shared = Counter(beginnings)
        grams = [set().union(*map(_grams, pieces)) for pieces in runs]
        common = Counter(gram for found in grams for gram in found)
        self._all = range(len(patterns))
        self._open: list[int] = []
        self._by_beginning: dict[str, list[int]] = {}
        self._by_gram: dict[str, list[int]] = {}
        for position, (beginning, found) in enumerate(zip(beginnings, grams, strict=True)):
            rarest = min(sorted(found), key=common.__getitem__, default=None)
            if beginning and (shared[beginning] <= SHARED_PREFIX_COUNT_MAX or rarest is None):
                self._by_beginning.setdefault(beginning, []).append(position)
            elif rarest is not None:
                self._by_gram.setdefault(rarest, []).append(position)
            else:
                self._open.append(position)
        self._lengths = sorted({len(beginning) for beginning in self._by_beginning})

    def candidates(self, text: str) -> Sequence[int]:
        """Return the positions of all patterns that may match, in order."""
        if self._by_gram and len(text) > INDEXED_TEXT_CHARS_MAX:
            return self._all
        found = self._open.copy()
        by_beginning = self._by_beginning
        for length in self._lengths:
            if positions := by_beginning.get(text[:length]):
                found += positions
        if by_gram := self._by_gram:
            for gram in by_gram.keys() & _grams(text):
                found += by_gram[gram]
        # A text shorter than a length gives the same slice again, and so the same positions.
        return sorted(set(found)) if len(found) > 1 else found


def _grams(text: str) -> set[str]:
    return {text[at : at + GRAM_CHARS] for at in range(len(text) - GRAM_CHARS + 1)}
