"""The options with which Claude Code runs a program without a rule, read from `readonly.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Literal

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.data_files import WordSet, data_file, read_entries, read_entry

_FILE: Final = "policy/claude/readonly.toml"
_WORDS: Final = ("anything", "unless_patterns")
_DIGITS = late_pattern(r"-[0-9]+")
_GLUED = late_pattern(r"(-[A-Za-z])([0-9]+)")
_FORMATS: Final = frozenset({"oneline", "short", "medium", "full", "fuller", "email", "raw"})
_PATH_MAX: Final = 3
"""Words of the longest name of an entry, `git stash list`."""


class OptionList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program, or a sub-command of one, that runs without a rule with these options and no others.

    `flags` take no value, `texts` and `numbers` take one, `formats` take one of git's or one with a `%`, `values` take
    one only after `=`. With a flag of `lists` there may be no operand. `patterns`: words may be unquoted patterns;
    `digits`: `-20` is an option; `glued`: a short option may have digits in its own word; `ends`: `--` ends the
    options.
    """

    flags: WordSet = WordSet()
    texts: WordSet = WordSet()
    numbers: WordSet = WordSet()
    values: WordSet = WordSet()
    formats: WordSet = WordSet()
    lists: WordSet = WordSet()
    operands: Literal["any", "one", "none", "listed"] = "any"
    patterns: bool = False
    digits: bool = False
    glued: bool = False
    ends: bool = True

    def operands_of(self, words: Sequence[str]) -> list[str] | None:
        """Return the operands; None if an option is not listed, or has a value of another kind."""
        found: list[str] = []
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word == "--" and self.ends:
                return [*found, *words[at:]]
            if not word.startswith("-") or word in ("-", "--"):
                found.append(word)
                continue
            taken = self._option(word, words[at] if at < len(words) else None)
            if taken is None:
                return None
            at += taken
        return found

    def _option(self, word: str, following: str | None) -> int | None:
        """Return the number of words after an option that are its value; None for an option that is not listed."""
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if equals:
            return 0 if name in self.values or self._takes(name, value) else None
        if word in self.flags or (self.digits and _DIGITS.fullmatch(word)):
            return 0
        if word in self.texts or word in self.numbers or word in self.formats:
            return 1 if following and not following.startswith("-") and self._takes(word, following) else None
        return 0 if self._is_cluster(word) else None

    def _takes(self, name: str, value: str) -> bool:
        if name in self.formats:
            return "%" in value or value in _FORMATS
        return name in self.texts or (name in self.numbers and value.isascii() and value.isdigit())

    def _is_cluster(self, word: str) -> bool:
        if word.startswith("--"):
            return False
        glued = _GLUED.fullmatch(word) if self.glued else None
        if glued is not None and glued[1] in self.texts | self.numbers:
            return True
        return all("-" + letter in self.flags for letter in word[1:])

    def allows(self, words: Sequence[str]) -> bool:
        """Return whether a command with these words after the name of the entry is read-only."""
        operands = self.operands_of(words)
        if operands is None:
            return False
        if self.operands == "listed":
            return not operands or any(word in self.lists for word in words)
        return self.operands == "any" or len(operands) <= (self.operands == "one")


class Lists(msgspec.Struct, frozen=True):
    """The contents of the file: programs of which every use runs, those without unquoted patterns, and listed ones."""

    anything: WordSet
    unless_patterns: WordSet
    programs: dict[str, OptionList]

    def entry(self, words: Sequence[str]) -> tuple[OptionList, Sequence[str]] | None:
        """Return the entry with the longest name that a command begins with, and the words after the name."""
        for length in range(min(_PATH_MAX, len(words)), 0, -1):
            found = self.programs.get(" ".join(words[:length]))
            if found is not None:
                return found, words[length:]
        return None


@cache
def lists() -> Lists:
    """Return the contents of `readonly.toml`. Raises TableError."""
    return read_lists(data_file(_FILE), _FILE)


def read_lists(contents: dict[str, Any], place: str) -> Lists:
    """Read the contents of a file: two lists of words, and a table a program. Raises TableError."""
    anything, unless = (read_entry(WordSet, contents.get(name), f"{place}: `{name}`") for name in _WORDS)
    programs = {name: table for name, table in contents.items() if name not in _WORDS}
    return Lists(anything, unless, read_entries(OptionList, programs, place))
