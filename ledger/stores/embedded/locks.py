"""Kernel locks on files, which the kernel releases when their holder ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledger.stores.embedded.errors import EmbeddedServerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ledger.stores.embedded.patience import Patience


class FileLock:
    """One flock on one file. Each instance is a separate holder, also within one process.

    The file is never deleted: a lock on a deleted file would not exclude later holders.
    """

    def __init__(self, path: Path) -> None:
        # Descriptors of os.open are not inherited by children, so a lock never outlives its holder by accident.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def fileno(self) -> int:
        return self._descriptor

    def try_shared(self) -> bool:
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Acquire the lock exclusively, or upgrade a shared hold; return False while another holder has it."""
        return self._try(fcntl.LOCK_EX)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Release the lock. A child process that inherited it keeps it."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def is_held(path: Path) -> bool:
    """Return whether any process holds the lock exclusively."""
    lock = FileLock(path)
    try:
        return not lock.try_shared()
    finally:
        lock.close()


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
