"""Words of a command that an allow rule spells out; the rule means to allow them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.policy.matching.wildcard import whole_glob
from ledger.policy.shell.model import Word

_WILD: Final = "*?"


class Spelled:
    """One rule's words beside the words of a command.

    `first` is the index of the command's first word in `words`.
    """

    def __init__(self, rule: Sequence[str], words: Sequence[Word], first: int = 0) -> None:
        self.rule, self.words, self.first = rule, words, first
        self.literal_count = 0
        for spelt, word in zip(rule, words, strict=False):
            if _is_wild(spelt) or spelt not in (word.raw, word.resolved):
                break
            self.literal_count += 1
        self.is_blanket = not rule or not rule[0].strip(_WILD)
        """True if the rule covers any command."""
        self.options = frozenset(one for one in rule if one.startswith("-") and not _is_wild(one))

    def __contains__(self, at: int) -> bool:
        """Return whether the rule spells the word at an index: in its literal beginning, or as an option anywhere."""
        at += self.first
        return at < self.literal_count or self.words[at].raw in self.options

    def names(self, at: int) -> bool:
        """Return whether the rule spells the word or its beginning: `scripts/*` names `scripts/a.sh`."""
        if at in self:
            return True
        at += self.first
        text = self.words[at].resolved
        if at != self.literal_count or at >= len(self.rule) or text is None or self.words[at].glob:
            return False
        pattern = self.rule[at]
        return pattern[0] not in _WILD and ".." not in text.split("/") and whole_glob(pattern)(text)

    def inner(self, by: int) -> Spelled:
        """Return the same rule for a command that begins `by` words later."""
        return Spelled(self.rule, self.words, self.first + by)


def _is_wild(word: str) -> bool:
    return any(mark in word for mark in _WILD)
