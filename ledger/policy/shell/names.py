"""Plain names of programs, independent of path, version, case and vendor's prefix; names of variables that may be set."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.data_files import WordSet, data_file, read_entries, read_file

_VERSION = late_pattern(r"(?<=[a-z])[-.]?[0-9]+(?:\.[0-9]+)*\Z")
_SUFFIX = late_pattern(r"\.(?:exe|cmd|bat|com)\Z")
_NAMES_MAX: Final = 4_096

_FILE: Final = "policy/shell/tables/names.toml"
_ALIASES: Final = {
    alias: name for name, aliases in read_entries(WordSet, data_file(_FILE), _FILE).items() for alias in aliases
}


def basename(program: str) -> str:
    """Return the last part of a path; the whole text if nothing follows the last slash."""
    return program.rpartition("/")[2] or program


@lru_cache(maxsize=_NAMES_MAX)
def plain_name(program: str) -> str:
    """Return the plain name: `python` for `/usr/bin/python3.11`, `awk` for `GAWK`.

    For tables that make verdicts stricter, never for an allow. A name that a table lists with its digits (`7z`,
    `base64`) is looked up as written first: see `lookups`.
    """
    name = _SUFFIX.sub("", basename(program).lower())
    name = _ALIASES.get(name, name)
    bare = _VERSION.sub("", name)
    return _ALIASES.get(bare, bare)


@lru_cache(maxsize=_NAMES_MAX)
def lookups(program: str) -> tuple[str, ...]:
    """Return the names under which a table may list a program, without repeats."""
    name = _SUFFIX.sub("", basename(program).lower())
    return tuple(dict.fromkeys((name, _ALIASES.get(name, name), plain_name(program))))


class _Variables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
