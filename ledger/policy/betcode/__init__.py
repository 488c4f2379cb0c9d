"""The dialect `betcode`: tiered `Tool(specifier)` rules of BetCode's Permission Bridge (betcode.md)."""

from __future__ import annotations

from ledger.policy.betcode.policy import BetCodePolicy

__all__ = ["BetCodePolicy"]
