"""The shapes of secrets, read from `shapes/`: checked when they are read, each compiled when it is needed first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.masks.named_values import is_plausible, is_secret_at
from ledger.policy.data_files import TableError, WordList, data_file, read_entry

_KIND: Final = late_pattern(r"[a-z][a-z0-9-]{0,31}")
_BEFORE_CHARS: Final = 80


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table of a file, as it is written there."""

    words: WordList
    pattern: str
    source: str
    before: str | None = None
    within: str | None = None
    anywhere: bool = False
    whole: bool = False
    broken: bool = False
    kind: str | None = None
    named: bool = False


class SecretShape:
    """One shape of secrets: the words at which they are found, and the patterns of what stands there.

    `is_folded`: the words are in lower case, and so is the text in which they are looked for. `is_whole`: a word stands
    between characters that are no letters or digits. `is_broken`: the secret may lack a run of `RUN_CHARS` characters
    without a sign.
    """

    def __init__(self, name: str, kind: str, entry: _Entry, flags: int) -> None:
        self.name = name
        self.kind = kind
        self.words: tuple[str, ...] = tuple(entry.words)
        self.is_folded = bool(flags & re.IGNORECASE)
        self.is_whole = entry.whole
        self.is_broken = entry.broken
        self._entry = entry
        self.pattern = late_pattern(entry.pattern, flags)
        self.before = None if entry.before is None else late_pattern(entry.before, flags)
        self.within = None if entry.within is None else late_pattern(entry.within, flags)

    def spans(self, text: str, searched: str) -> Iterator[tuple[int, int]]:
        """Iterate over the spans of secrets in a text. `searched` is the text in the case of the words."""
        for match in self._matches(text, searched):
            start, end = _secret(match)
            if not self._entry.named or is_plausible(text[start:end]):
                yield start, end

    def _matches(self, text: str, searched: str) -> Iterator[re.Match[str]]:
        if self._entry.anywhere:
            yield from self.pattern.finditer(text)
            return
        # Places in order, so that a stretch is searched once, whatever number of words is in it.
        after = 0
        for place in _places(self.words, searched):
            if place < after:
                continue
            if self.within is None:
                match = self.pattern.match(text, place)
                if match is not None and self._may_stand_at(text, searched, place):
                    after = max(match.end(), place + 1)
                    yield match
                continue
            stretch = self.within.match(text, place)
            if stretch is not None:
                after = stretch.end()
                yield from self.pattern.finditer(text, place, after)

    def _may_stand_at(self, text: str, searched: str, place: int) -> bool:
        if self.before is not None and self.before.search(text, max(0, place - _BEFORE_CHARS), place) is None:
            return False
        return not self._entry.named or is_secret_at(searched, place)


@cache
def provider_shapes() -> tuple[SecretShape, ...]:
    """Return the shapes with a form of their own; words are compared as written. Raises TableError."""
    return _read("masks/shapes/providers.toml", 0, by_provider=True)


@cache
def broken_shapes() -> tuple[SecretShape, ...]:
    """Return those of `provider_shapes` that a text without a long run of letters may hold (`is_broken`)."""
    return tuple(shape for shape in provider_shapes() if shape.is_broken)


@cache
def place_shapes() -> tuple[SecretShape, ...]:
    """Return the shapes of places. Their words are compared with a text in lower case. Raises TableError."""
    return _read("masks/shapes/places.toml", re.IGNORECASE, by_provider=False)


@cache
def place_words() -> tuple[set[str], tuple[str, ...]]:
    """Return the words of places that stand alone, and those that may be parts of words. Raises TableError."""
    whole = {word for shape in place_shapes() if shape.is_whole for word in shape.words}
    parts = dict.fromkeys(word for shape in place_shapes() if not shape.is_whole for word in shape.words)
    return whole, tuple(parts)


def _read(file: str, flags: int, *, by_provider: bool) -> tuple[SecretShape, ...]:
    found = []
    for name, table in data_file(file).items():
        entry = read_entry(_Entry, table, f"{file}: `{name}`")
        kind = entry.kind or (name.partition("-")[0] if by_provider else name)
        if not entry.words or _KIND.fullmatch(kind) is None:
            raise TableError(f"{file}: `{name}` has no word or an unusable kind")
        found.append(SecretShape(name, kind, entry, flags))
    return tuple(found)


def _places(words: tuple[str, ...], searched: str) -> list[int]:
    """Return the places of words in a text, in order."""
    places: list[int] = []
    for word in words:
        place = searched.find(word)
        while place >= 0:
            places.append(place)
            place = searched.find(word, place + 1)
    places.sort()
    return places


def _secret(match: re.Match[str]) -> tuple[int, int]:
    """Return the span of the first group that took part, else of the whole match."""
    for span in match.regs[1:]:
        if span[0] >= 0:
            return span
    return match.span()
