"""The rules of BRUTUS for conversions."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.policy.brutus.rules import sort_key
from ledger.policy.conversion.flat import PATTERNED, FlatNotation


class BrutusNotation(FlatNotation):
    """The notation of BRUTUS."""

    reads_names = False

    def takes_patterns(self, permission: str) -> bool:
        return permission in PATTERNED

    def loosened(self, pattern: str) -> str | None:
        return pattern.replace("\\", "?") if "\\" in pattern else None

    def in_order(self, permissions: Iterable[str]) -> list[str]:
        return sorted(permissions, key=sort_key)
