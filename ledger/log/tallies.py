"""Counters of a process's failed appends, for its metrics; the log has no record of them."""

from __future__ import annotations

from ledger.core.errors import InDoubtError


class Tallies:
    """Counters since the start of the process."""

    def __init__(self) -> None:
        self.conflicts = 0
        """Append conflicts (lost races, retried)."""
        self.in_doubt = 0
        """Writes without a reply."""

    def failed(self, error: BaseException) -> None:
        self.in_doubt += isinstance(error, InDoubtError)
