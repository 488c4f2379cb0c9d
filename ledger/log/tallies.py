"""What one process counts of its own appends, for its metrics: the log tells nothing of what did not get into it."""

from __future__ import annotations

from ledger.core.errors import InDoubtError


class Tallies:
    """Since the process began."""

    def __init__(self) -> None:
        self.conflicts = 0
        """Appends that found entries they had not seen, and were decided again."""
        self.in_doubt = 0
        """Writes that no answer came to."""

    def failed(self, error: BaseException) -> None:
        self.in_doubt += isinstance(error, InDoubtError)
