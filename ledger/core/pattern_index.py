"""An index of patterns by a word that every text that they match contains. Immutable; for the patterns of any dialect.

A word is a run of ASCII letters and digits, in lower case. A pattern is filed under one of its words: the one under
which the fewest patterns are at that time. A word before a wildcard is only the beginning of a word of the text. A
pattern without such a word is filed under none, and may match every text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from rpds import HashTrieMap

from ledger.core.late_patterns import late_pattern

BEGINNING_CHARS_MAX: Final = 16

_WORD: Final = late_pattern(r"[A-Za-z0-9]+")
_WILD: Final = frozenset("*?")
_UNSURE: Final = frozenset("\\[]{}")
"""Characters that make some dialects read the letters beside them as something else than themselves."""

_ANY: Final = ""
_BEGINS: Final = "^"
"""Marks the beginning of a word; a whole word has no mark."""


class PatternIndex:
    """The ids of patterns by a word."""

    __slots__ = ("_by_word", "_has_beginnings", "_word_of")

    def __init__(
        self,
        by_word: HashTrieMap[str, tuple[str, ...]] | None = None,
        word_of: HashTrieMap[str, str] | None = None,
        *,
        has_beginnings: bool = False,
    ) -> None:
        self._by_word: HashTrieMap[str, tuple[str, ...]] = HashTrieMap() if by_word is None else by_word
        self._word_of: HashTrieMap[str, str] = HashTrieMap() if word_of is None else word_of
        self._has_beginnings = has_beginnings

    def __contains__(self, pattern_id: str) -> bool:
        return pattern_id in self._word_of

    def __len__(self) -> int:
        return len(self._word_of)

    def add(self, pattern_id: str, pattern: str) -> PatternIndex:
        """Return the index with one more pattern, whose id it must not have."""
        word = min(_words_of(pattern), key=lambda one: (len(self._by_word.get(one, ())), -len(one)), default=_ANY)
        beside = self._by_word.get(word, ())
        return PatternIndex(
            self._by_word.insert(word, (*beside, pattern_id)),
            self._word_of.insert(pattern_id, word),
            has_beginnings=self._has_beginnings or word.startswith(_BEGINS),
        )

    def discard(self, pattern_id: str) -> PatternIndex:
        """Return the index without a pattern, which it may lack."""
        word = self._word_of.get(pattern_id)
        if word is None:
            return self
        left = tuple(one for one in self._by_word[word] if one != pattern_id)
        return PatternIndex(
            self._by_word.insert(word, left) if left else self._by_word.remove(word),
            self._word_of.remove(pattern_id),
            has_beginnings=self._has_beginnings,
        )

    def beside(self, pattern_id: str) -> tuple[str, ...]:
        """Return the ids of the patterns under the same word."""
        word = self._word_of.get(pattern_id)
        return () if word is None else self._by_word[word]

    def about(self, texts: Iterable[str]) -> Iterator[str]:
        """Iterate over the ids of the patterns that may match one of these texts, each once."""
        by_word = self._by_word
        if not by_word:
            return
        yield from by_word.get(_ANY, ())
        for word in _words_in(texts, beginnings=self._has_beginnings):
            found = by_word.get(word)
            if found is not None:
                yield from found


def _words_of(pattern: str) -> Iterator[str]:
    """Yield the words that every match of a pattern contains; those of its members if it is a flat object of JSON."""
    if pattern.startswith("{"):
        for value in _members_of(pattern):
            yield from _words_of_text(value)
    else:
        yield from _words_of_text(pattern)


def _members_of(pattern: str) -> tuple[str, ...]:
    """Return the texts in a flat object; nothing for another value, with an escape, or with a member twice."""
    if "\\" in pattern:
        return ()
    try:
        members = json.loads(pattern, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return ()
    if len({name for name, _ in members}) < len(members):
        return ()
    return tuple(value for _, value in members if isinstance(value, str))


def _words_of_text(pattern: str) -> Iterator[str]:
    if not _UNSURE.isdisjoint(pattern):
        return
    for found in _WORD.finditer(pattern):
        before = pattern[found.start() - 1] if found.start() else " "
        after = pattern[found.end()] if found.end() < len(pattern) else " "
        if before in _WILD or not before.isascii() or not after.isascii():
            continue
        word = found[0].lower()
        if after in _WILD or len(word) > BEGINNING_CHARS_MAX:
            yield _BEGINS + word[:BEGINNING_CHARS_MAX]
        else:
            yield word


def _words_in(texts: Iterable[str], *, beginnings: bool) -> set[str]:
    words: set[str] = set()
    for text in texts:
        words.update(map(str.lower, _WORD.findall(text)))
        if not text.isascii():  # some dialects ignore case, and other letters are ASCII letters without theirs
            words.update(_WORD.findall(text.casefold()))
    if not beginnings:
        return words
    begun = (_BEGINS + word[:length] for word in words for length in range(1, min(len(word), BEGINNING_CHARS_MAX) + 1))
    return words.union(begun)
