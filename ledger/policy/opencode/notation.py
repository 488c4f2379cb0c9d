"""The rules of OpenCode for conversions."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.policy.conversion.flat import FlatNotation
from ledger.policy.neutral import ANY
from ledger.policy.opencode.names import ACTION_ONLY


class OpenCodeNotation(FlatNotation):
    """The notation of OpenCode."""

    action_only = ACTION_ONLY
    expands_home = True
    guards_files = True

    def takes_patterns(self, permission: str) -> bool:
        return permission not in ACTION_ONLY

    def loosened(self, pattern: str) -> str | None:
        odd = pattern.startswith(("~", "$HOME")) or pattern.isdecimal()
        return f"?{pattern[1:]}" if odd else None

    def in_order(self, permissions: Iterable[str]) -> list[str]:
        wild_first = sorted(permissions, key=lambda name: not {"*", "?"} & set(name))
        return sorted(wild_first, key=lambda name: name != ANY)
