"""Polling with a deadline that another thread can cancel."""

from __future__ import annotations

import threading
import time
from typing import Final

from ledger.stores.embedded.errors import AbandonedError

POLL_INTERVAL_S: Final = 0.003
"""The interval of polls; a server is up within some 35 ms."""


class Patience:
    """A limit in seconds on waiting without progress."""

    def __init__(self, limit_s: float, abandoned: threading.Event | None = None) -> None:
        self.limit_s = limit_s
        self._abandoned = abandoned or threading.Event()
        self._until_s = time.monotonic() + limit_s

    def renew(self) -> None:
        """Restart the limit after progress."""
        self._until_s = time.monotonic() + self.limit_s

    def pause(self) -> bool:
        """Wait for one poll interval; return False when the limit is reached.

        Raises AbandonedError when the caller has given up.
        """
        if self._abandoned.wait(POLL_INTERVAL_S):
            raise AbandonedError
        return time.monotonic() < self._until_s
