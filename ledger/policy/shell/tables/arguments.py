"""Arguments that make an otherwise harmless program run, write or read something that its name does not suggest.

The entries are data, see `arguments.toml`; `ledger.policy.shell.danger` interprets them.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ledger.policy.data_files import LateEntries, WordSet


class DangerousArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The dangerous arguments of one program or one of its sub-commands.

    - `always`: it runs (or sends, or overwrites) its arguments, whatever they are; only `--version` alone is harmless.
    - `short`: letters, anywhere in a cluster (`-uo`); a `valued` letter ends a cluster and takes the rest as its value.
    - `long`: names without dashes; abbreviations count (`--outp`) unless `exact`. With `one_dash`, `-name` counts too
      and there are no clusters.
    - `pattern`: a regular expression that a whole word must not match.
    - `remote_helpers`: no word may be an address that names a program (`ext::sh -c …`).
    - `operands_max`: more operands than this are dangerous; `operand_options` take the next word as their value.
    - `leading`: the only options allowed in front of a sub-command. `subcommands` add to the entry of the program;
      those of `always_subcommands` are dangerous whatever follows.
    - `script`: the words are a small program, of which only simple forms are harmless (`sed`, `awk`).
    - `old_style`: the first word may be a cluster without a dash (`tar xIf`).
    - `dashes_end`: `--` ends the options.
    """

    always: bool = False
    short: str = ""
    valued: str = ""
    long: WordSet = WordSet()
    one_dash: bool = False
    exact: bool = False
    pattern: re.Pattern[str] | None = None
    remote_helpers: bool = False
    operands_max: int | None = None
    operand_options: str = ""
    leading: WordSet | None = None
    always_subcommands: WordSet = WordSet()
    subcommands: dict[str, DangerousArguments] = {}
    script: str = ""
    old_style: bool = False
    dashes_end: bool = True


ARGUMENTS: Final = LateEntries(DangerousArguments, __package__, "arguments.toml")
