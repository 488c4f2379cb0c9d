"""Tables of wrappers, of builtins that change the shell, and of dangerous arguments."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ledger.core.late_patterns import LatePattern
from ledger.policy.data_files import LateEntries, WordList, WordSet, read_entries, read_file


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
