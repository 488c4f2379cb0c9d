"""Programs and words that deserve attention, by their possible effect, read from `dangers.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from ledger.core.late_patterns import LatePattern, late_pattern
from ledger.policy.data_files import TableError, WordSet, read_entry, read_file

_FILE: Final = "policy/shell/tables/dangers.toml"
_FIRST_WORD: Final = r"\A(?:-\S+(?: [^-\s]\S*)? )*?"
_ANY_WORD: Final = r"(?:\A| )"


class _Programs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Programs with an effect. The patterns of the others match the arguments with which they have it."""

    programs: WordSet
    subcommands: dict[str, str] = {}
    anywhere: dict[str, str] = {}


class ProgramEffect:
    """Test of commands for one effect: by the program alone, or by a pattern searched in its arguments."""

    def __init__(self, table: Any, place: str) -> None:
        """Read a table. Raises TableError."""
        read = read_entry(_Programs, table, place)
        self._programs = read.programs
        self._patterns: dict[str, LatePattern] = {}
        for start, patterns in ((_FIRST_WORD, read.subcommands), (_ANY_WORD, read.anywhere)):
            for name, pattern in patterns.items():
                if name in self._patterns:
                    raise TableError(f"{place}: `{name}` is listed twice")
                self._patterns[name] = late_pattern(f"{start}(?:{pattern})")

    def applies(self, names: Sequence[str], words: Sequence[str]) -> bool:
        """Return whether a program, by any of its names, has the effect with these arguments."""
        if not self._programs.isdisjoint(names):
            return True
        found = next((self._patterns[name] for name in names if name in self._patterns), None)
        return found is not None and found.search(" ".join(words)) is not None


class _Dangers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    downloaders: WordSet
    interpreters: WordSet
    own_files: WordSet
    program_folders: WordSet
    secret: LatePattern
    effects: dict[str, Any]


_DANGERS: Final = read_file(_Dangers, _FILE)

DOWNLOADERS: Final = _DANGERS.downloaders
INTERPRETERS: Final = _DANGERS.interpreters
OWN_FILES: Final = _DANGERS.own_files
PROGRAM_FOLDERS: Final = _DANGERS.program_folders
SECRET: Final = _DANGERS.secret


@cache
def effects() -> Mapping[str, ProgramEffect]:
    """Return the tests by effect. Their patterns are compiled for the first command line that is judged."""
    return {name: ProgramEffect(table, f"{_FILE}: `{name}`") for name, table in _DANGERS.effects.items()}
