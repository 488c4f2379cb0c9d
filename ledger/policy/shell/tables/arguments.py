"""Arguments that make an otherwise harmless program run, write or read something that its name does not suggest.

The entries are data, see `arguments.toml`; `ledger.policy.shell.danger` interprets them.

Builtins that change the meaning of later commands, of which no allow rule ever counts, are in `builtins.toml`.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ledger.policy.data_files import LateEntries, WordSet, data_file, read_entries


class DangerousArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The dangerous arguments of one program.

    - `short`: letters, anywhere in a cluster (`-uo`); a `valued` letter ends a cluster and takes the rest as its value.
    - `long`: names without dashes; abbreviations count (`--outp`).
    - `pattern`: a regular expression that a whole word must not match.
    """

    short: str = ""
    valued: str = ""
    long: WordSet = WordSet()
    pattern: re.Pattern[str] | None = None


ARGUMENTS: Final = LateEntries(DangerousArguments, __package__, "arguments.toml")

STATE_BUILTINS: Final = frozenset[str]().union(
    *read_entries(WordSet, data_file(__package__, "builtins.toml"), "builtins.toml").values()
)
