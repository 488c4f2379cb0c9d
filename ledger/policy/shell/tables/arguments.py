"""Arguments that make an otherwise harmless program run, write or read something that its name does not suggest.

The entries are data, see `arguments.toml`; `ledger.policy.shell.danger` interprets them.

Builtins that change the meaning of later commands, of which no allow rule ever counts, are in `builtins.toml`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.core.late_patterns import LatePattern
from ledger.policy.data_files import LateEntries, WordSet, read_file


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
