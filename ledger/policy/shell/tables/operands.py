"""Files that programs execute or read as a program, read from `operands.toml`."""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Any, Final, Literal

import msgspec

from ledger.core.late_patterns import LatePattern
from ledger.policy.data_files import TableError, WordList, WordSet, read_entries, read_file


class OptionRole(Enum):
    """The meaning of an option for the files that a program reads."""

    VALUED = "valued"
    GLUED = "glued"
    FILES = "files"
    SCRIPT = "script"
    FOLDER = "folder"
    CODE = "code"
    MODULE = "module"
    FROM_STDIN = "from_stdin"


class ProgramFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The files that one program, or one of its sub-commands, executes or reads as a program.

    Words of its command:
    - `program`: its operands that are such files: the `first` one, whose followers are the program's own words, `all`,
      or `none`. `matching`: only operands that match as a whole. `suffixes` are tried behind the name. `inside` are the
      files of an operand that is a folder. `place`: the first operand is the folder of the files below.
    - `files`, `script`, `folder`, `code`, `module`, `valued`: options whose value is such a file, the only program (so
      the words behind are its own), the folder to work in, program text (so no operand is a file), a Python module, or
      anything else. `glued`: letters with their value in the same
      word only. `from_stdin`: options that make it read its program from standard input.
    - `leading`: options count only before the first operand. `one_dash`: `-name` is one option, not a cluster.

    Files without a word:
    - `default`: names of which the first existing one is read unless the command names a file. `beside`: all that exist
      are read too; a name may be a pattern. `upward`: both are looked for in the folders above as well, up to the first.
    - `stdin`: without a file or text it reads its program from standard input.

    The entries of `subcommands` inherit the options.
    """

    program: Literal["none", "first", "all"] = "none"
    matching: LatePattern | None = None
    suffixes: WordList = WordList()
    inside: WordList = WordList()
    place: bool = False
    files: WordSet = WordSet()
    script: WordSet = WordSet()
    folder: WordSet = WordSet()
    code: WordSet = WordSet()
    module: WordSet = WordSet()
    valued: WordSet = WordSet()
    glued: WordSet = WordSet()
    from_stdin: WordSet = WordSet()
    leading: bool = False
    one_dash: bool = False
    default: WordList = WordList()
    beside: WordList = WordList()
    upward: bool = False
    stdin: bool = False
    subcommands: dict[str, Any] = {}

    @cached_property
    def options(self) -> dict[str, OptionRole]:
        """Return the role of each option. Raises TableError for a word without a dash, or one with two roles."""
        found: dict[str, OptionRole] = {}
        for role in OptionRole:
            for name in getattr(self, role.value):
                if name[:1] not in ("-", "+") or len(name) < 2:
                    raise TableError(f"`{name}` is not an option, but stands in `{role.value}`")
                if name in found:
                    raise TableError(f"`{name}` stands in `{found[name].value}` and in `{role.value}`")
                found[name] = role
        return found

    @cached_property
    def below(self) -> dict[str, ProgramFiles]:
        """Return the sub-commands by name. Raises TableError."""
        return read_programs(self.subcommands)


class _Operands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    elsewhere: WordSet
    prints: WordSet
    variables: WordSet
    programs: dict[str, Any]


def read_programs(tables: dict[str, Any]) -> dict[str, ProgramFiles]:
    """Return the entries of programs with their sub-commands, checked. Raises TableError."""
    found = read_entries(ProgramFiles, tables, FILE)
    for name, entry in found.items():
        try:
            _check(entry)
        except TableError as error:
            raise TableError(f"{FILE}: `{name}`: {error}") from None
    return found


def _check(entry: ProgramFiles) -> None:
    _ = entry.options, entry.below  # both are checked when they are made
    for name in (*entry.default, *entry.beside, *entry.inside):
        if name.startswith("/") or ".." in name.split("/") or "*" in name.rpartition("/")[0]:
            raise TableError(f"`{name}` is not a path below the folder")
    if any("*" in name for name in entry.default):
        raise TableError("`default` has names, not patterns")
    if entry.place and entry.program != "none":
        raise TableError("the first operand cannot be both a folder and a program")


FILE: Final = "policy/shell/tables/operands.toml"
_OPERANDS: Final = read_file(_Operands, FILE)

ELSEWHERE: Final = _OPERANDS.elsewhere
"""Programs whose inner command runs on another machine or among other files."""

PRINTS: Final = _OPERANDS.prints
"""Programs that print the files they name, and so can feed one to an interpreter."""

VARIABLES: Final = _OPERANDS.variables
"""Variables of the environment whose value names files that a program runs or loads."""

PROGRAM_FILES: Final = read_entries(ProgramFiles, _OPERANDS.programs, FILE)
