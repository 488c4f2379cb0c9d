"""Waiting with a deadline that another thread can cut short."""

from __future__ import annotations

import threading
import time
from typing import Final

from ledger.stores.embedded.errors import AbandonedError

POLL_INTERVAL_S: Final = 0.003
"""A server is up within some 35 ms, so looking more often gains nothing and less often shows."""


class Patience:
    """So many seconds without progress, and no longer."""

    def __init__(self, limit_s: float, abandoned: threading.Event | None = None) -> None:
        self.limit_s = limit_s
        self._abandoned = abandoned or threading.Event()
        self._until_s = time.monotonic() + limit_s

    def renew(self) -> None:
        """There was progress: start counting again."""
        self._until_s = time.monotonic() + self.limit_s

    def pause(self) -> bool:
        """Wait one poll; False when the time is up.

        Raises AbandonedError as soon as the caller has given up.
        """
        if self._abandoned.wait(POLL_INTERVAL_S):
            raise AbandonedError
        return time.monotonic() < self._until_s
