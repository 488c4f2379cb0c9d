"""Tables of wrappers, builtins that change the shell, dangerous arguments, effects of programs, and files."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

import msgspec

from ledger.core.late_patterns import LatePattern, late_pattern
from ledger.policy.data_files import LateEntries, TableError, WordList, WordSet, read_entries, read_entry, read_file
from ledger.policy.shell.model import Access


class Opaque(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The syntax of a wrapper's inner command. `valued` letters and `valued_long` names take the next word.

    `operands` words precede the command. `script` letters and `script_long` names, in any position, take a text that a
    shell evaluates. If `joined`, the command's words together are such a text. `command` is true if a command follows
    the options at all.
    """

    valued: str = ""
    valued_long: WordSet = WordSet()
    operands: int = 0
    script: str = ""
    script_long: WordSet = WordSet()
    joined: bool = False
    command: bool = True


class Transparent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a wrapper that are understood; any other option makes it opaque.

    `flags` are complete words. `valued` are options whose value is attached, follows `=`, or is the next word, and must
    match `value`. `operand` is a regular expression for the single word before the command. `wide` finds the command
    for deny rules when the options are not understood.
    """

    flags: WordSet = WordSet()
    valued: WordList = WordList()
    value: LatePattern | None = None
    operand: LatePattern | None = None
    wide: Opaque = Opaque()


class _Wrappers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shells: WordSet
    transparent: dict[str, Any]
    opaque: dict[str, Any]
    runners: dict[str, Any]


_FILE: Final = "policy/shell/tables/wrappers.toml"
_WRAPPERS: Final = read_file(_Wrappers, _FILE)

SHELLS: Final = _WRAPPERS.shells
TRANSPARENT: Final = read_entries(Transparent, _WRAPPERS.transparent, _FILE)
OPAQUE: Final = read_entries(Opaque, _WRAPPERS.opaque, _FILE)
RUNNERS: Final = {tuple(name.split()): entry for name, entry in read_entries(Opaque, _WRAPPERS.runners, _FILE).items()}
"""Wrappers by their name and sub-commands."""


class DangerousArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The dangerous arguments of one program.

    - `short`: letters, anywhere in a cluster (`-uo`); a `valued` letter ends a cluster and takes the rest as its value.
    - `long`: names without dashes; abbreviations count (`--outp`).
    - `pattern`: a regular expression that a whole word must not match.
    """

    short: str = ""
    valued: str = ""
    long: WordSet = WordSet()
    pattern: LatePattern | None = None


ARGUMENTS: Final = LateEntries(DangerousArguments, "policy/shell/tables/arguments.toml")

STATE_BUILTINS: Final = frozenset[str]().union(
    *read_file(dict[str, WordSet], "policy/shell/tables/builtins.toml").values()
)


__all__ = [
    "ARGUMENTS",
    "OPAQUE",
    "RUNNERS",
    "SHELLS",
    "STATE_BUILTINS",
    "TRANSPARENT",
    "DangerousArguments",
    "Opaque",
    "Transparent",
]


_DANGERS_FILE: Final = "policy/shell/tables/dangers.toml"
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


_DANGERS: Final = read_file(_Dangers, _DANGERS_FILE)

DOWNLOADERS: Final = _DANGERS.downloaders
INTERPRETERS: Final = _DANGERS.interpreters
OWN_FILES: Final = _DANGERS.own_files
PROGRAM_FOLDERS: Final = _DANGERS.program_folders
SECRET: Final = _DANGERS.secret


@cache
def effects() -> Mapping[str, ProgramEffect]:
    """Return the tests by effect. Their patterns are compiled for the first command line that is judged."""
    return {name: ProgramEffect(table, f"{_DANGERS_FILE}: `{name}`") for name, table in _DANGERS.effects.items()}


class _Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    read: WordSet
    edit: WordSet
    read_edit: WordSet
    protected_folders: WordSet
    protected_files: WordSet
    product_folders: WordSet


_FILES: Final = read_file(_Files, "policy/shell/tables/files.toml")

PROGRAMS: Final[dict[str, tuple[Access, ...]]] = {
    **dict.fromkeys(_FILES.read, (Access.READ,)),
    **dict.fromkeys(_FILES.edit, (Access.EDIT,)),
    **dict.fromkeys(_FILES.read_edit, (Access.READ, Access.EDIT)),
}
"""Possible accesses of each program to the files among its words; broad, for deny and ask rules only."""


_NAMES: Final = frozenset(one for one in _FILES.protected_files if "*" not in one)
_GLOBS: Final = tuple(one for one in _FILES.protected_files if "*" in one)
_FOLDERS: Final = frozenset(tuple(one.split("/")) for one in _FILES.protected_folders)
_DEPTHS: Final = sorted({len(one) for one in _FOLDERS})


def is_protected(path: str, place: str = ".", start: str = ".") -> bool:
    """Return whether a path affects what later commands do, by its name or a folder's; case is ignored.

    `place` is the folder where it is written, `start` the one where the line began: the folders above that do not count.
    """
    if place != start:
        path = posixpath.relpath(posixpath.join(place, path), start)
    names = posixpath.normpath(path).casefold().split("/")
    if names[-1] in _NAMES or any(fnmatchcase(names[-1], one) for one in _GLOBS):
        return True
    return any(tuple(names[at : at + depth]) in _FOLDERS for depth in _DEPTHS for at in range(len(names)))


def is_product(path: str) -> bool:
    """Return whether a path is a folder of what programs make, or is in one."""
    return not _FILES.product_folders.isdisjoint(posixpath.normpath(path).casefold().split("/"))
