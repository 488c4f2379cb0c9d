"""Forms of `test`, `[ … ]` and `[[ … ]]` that only examine texts and files, for any values of their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.policy.shell.model import Word

_TESTS: Final = frozenset(
    {"-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-p", "-S", "-z", "-n", "-b", "-c", "-g", "-u", "-k"}
)
_COMPARISONS: Final = frozenset({"=", "==", "!=", "-nt", "-ot", "-ef"})
_NUMERIC: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


def is_known_test(words: Sequence[Word]) -> bool:
    """Return whether the words of a test, without brackets, have a known form. Each of them must be a single word.

    `-v` is not accepted: it looks up a name and evaluates its subscript.
    """
    if words and words[0].resolved == "!":
        words = words[1:]
    texts = [word.resolved for word in words]
    if len(words) == 2:
        return texts[0] in _TESTS
    if len(words) != 3:
        return False
    if texts[1] in _NUMERIC:
        return all(_is_number(word) for word in (words[0], words[2]))
    return texts[1] in _COMPARISONS


def _is_number(word: Word) -> bool:
    """Return whether a word is a number; zsh evaluates other operands of a comparison and runs their substitutions."""
    return (word.resolved or word.prefix or "").isdecimal() and (word.resolved is not None or word.prefix == "0")
