"""Builtins that change the meaning of later commands, read from `builtins.toml`. No allow rule for them ever counts."""

from __future__ import annotations

from typing import Final

from ledger.policy.data_files import WordSet, data_file, read_entries

STATE_BUILTINS: Final = frozenset[str]().union(
    *read_entries(WordSet, data_file(__package__, "builtins.toml"), "builtins.toml").values()
)
