"""Polling with a deadline that another thread can cancel, and a lock that is waited for so."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ledger.core.regular_files import FileLock
from ledger.stores.embedded.errors import AbandonedError, EmbeddedServerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


@contextmanager
def holding(path: Path, patience: Patience) -> Iterator[None]:
    """Hold the lock exclusively for the block.

    Raises EmbeddedServerError when other holders do not release it in time.
    """
    lock = FileLock(path)
    try:
        while not lock.try_exclusive():
            if not patience.pause():
                text = (
                    f"another process has been starting or stopping the server of `{path.parent}`"
                    f" for {patience.limit_s:g} s; end that process, or try again"
                )
                raise EmbeddedServerError(text, folder=str(path.parent))
        yield
    finally:
        lock.close()
