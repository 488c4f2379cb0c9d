"""An index of rules by their first word, which keeps lines of many commands and many rules fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ledger.policy.codelia.rule import CodeliaRule, Ruleset

_NONE: Final[tuple[tuple[int, CodeliaRule], ...]] = ()


class Index:
    """The rules of one list. Finds the first match in the list's order."""

    __slots__ = ("_by_word", "_others", "rules")

    def __init__(self, rules: Iterable[CodeliaRule]) -> None:
        self.rules = tuple(rules)
        by_word: dict[str, list[tuple[int, CodeliaRule]]] = {}
        others: list[tuple[int, CodeliaRule]] = []
        for place in enumerate(self.rules):
            words = place[1].words
            if words is None:
                others.append(place)
            elif words:
                by_word.setdefault(words[0], []).append(place)
        self._by_word = {word: tuple(places) for word, places in by_word.items()}
        self._others = tuple(others)

    def first(self, word: str | None, matches: Callable[[CodeliaRule], bool]) -> CodeliaRule | None:
        """Return the first match among the rules for `word` and those for no word; None as `word` is no word."""
        found = next(((at, rule) for at, rule in self._by_word.get(word or "", _NONE) if matches(rule)), None)
        for at, rule in self._others:
            if found is not None and found[0] < at:
                break
            if matches(rule):
                return rule
        return found[1] if found else None


class Indexes(NamedTuple):
    """Both lists of a ruleset."""

    allow: Index
    deny: Index


def indexed(rules: Ruleset) -> Indexes:
    return Indexes(Index(rules.allow), Index(rules.deny))
