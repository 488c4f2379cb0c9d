"""Names of variables that a plain line may set, and names whose value it must not print."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.data_files import WordSet, read_file


class _Variables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `variables.toml`."""

    harmless: WordSet
    own: WordSet
    special: WordSet


_VARIABLES: Final = read_file(_Variables, "policy/shell/tables/variables.toml")
HARMLESS: Final = _VARIABLES.harmless


_LOWER = late_pattern(r"[a-z_][a-z0-9_]*")
# Proxies and package managers read lower-case names; the special ones are for zsh, ksh or csh.
_READ_LOWER = late_pattern(r".*_proxy|(?:npm|pnpm|yarn|pip|zsh|bash|ksh|fish|git|ld)_.*|_+")
_SECRET = late_pattern(
    r"TOKEN|SECRET|PASS|CRED|KEY|AUTH|PRIVATE|COOKIE|SESSION|DSN|CONN|DATABASE_URL|SIGN", re.IGNORECASE
)


def may_be_set(name: str) -> bool:
    """Return whether a line may set this variable for its own later words."""
    if name in HARMLESS or name in _VARIABLES.own:
        return True
    return bool(_LOWER.fullmatch(name)) and name not in _VARIABLES.special and not _READ_LOWER.fullmatch(name)


def may_hold_a_secret(name: str) -> bool:
    return _SECRET.search(name) is not None
