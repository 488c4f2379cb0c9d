"""The dialect `brutus`: OpenCode's rules as BRUTUS implements them in Go (brutus.md)."""

from __future__ import annotations

from ledger.policy.brutus.arity import arity_prefix
from ledger.policy.brutus.policy import BrutusPolicy

__all__ = ["BrutusPolicy", "arity_prefix"]
