"""Values of words as paths: home folders and variables that the line itself sets are known. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.model import ShellCommand, Word
from ledger.policy.shell.words import loosen

ROUNDS_MAX: Final = 4
"""Variables whose values name other variables are followed this deep."""

VALUE_CHARS_MAX: Final = 4096
"""A longer value names no file (PATH_MAX of Linux)."""

_VARIABLE = late_pattern(r"\$(?:(?P<bare>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\})")
_HERE = late_pattern(r"\A(?:\$\(pwd\)|`pwd`|\$PWD(?![A-Za-z0-9_])|\$\{PWD\})")
_RUNS = late_pattern(r"[$`]|[<>]\(|\{[^{}]*(?:,|\.\.)[^{}]*\}")
_GLOB = late_pattern(r"[*?\[]")
_TILDE = late_pattern(r"\A~(?=/|\Z)")


class PathText(NamedTuple):
    """The text of a word before the line runs. `is_glob`: it is a pattern that the shell replaces by file names."""

    text: str
    is_glob: bool = False


class LineValues:
    """The variables of one line that have the same literal value wherever they are set, and the home folder."""

    def __init__(self, commands: Sequence[ShellCommand], home: str | None) -> None:
        self.home = home
        given = [(one.name, one.value.resolved) for command in commands for one in command.assignments]
        times = Counter(name for name, _ in given)
        self._known = {name: value for name, value in given if times[name] == 1 and value is not None}
        self._assigned = frozenset(times)

    def of(self, word: Word) -> PathText | None:
        """Return the text of a word; None if it is known only when the line runs."""
        text = loosen(word)
        if word.resolved is not None:
            return self._at_home(text, word.glob) if word.tilde else PathText(text, word.glob)
        if "PWD" not in self._assigned:
            text = _HERE.sub(".", text)
        for _ in range(ROUNDS_MAX):
            replaced = _VARIABLE.sub(self._value, text)
            if replaced == text or len(replaced) > VALUE_CHARS_MAX:
                break
            text = replaced
        if _RUNS.search(text) is not None or len(text) > VALUE_CHARS_MAX:
            return None
        is_glob = _GLOB.search(word.raw) is not None
        return self._at_home(text, is_glob) if word.raw.startswith("~") else PathText(text, is_glob)

    def _value(self, found: re.Match[str]) -> str:
        name = found["bare"] or found["braced"]
        if name == "HOME" and name not in self._assigned and self.home is not None:
            return self.home
        return self._known.get(name, found.group())

    def _at_home(self, text: str, is_glob: bool) -> PathText | None:
        home = self.home
        if home is None or _TILDE.match(text) is None:
            return None  # another user's home, or one that nobody knows
        return PathText(_TILDE.sub(lambda _: home, text), is_glob)
