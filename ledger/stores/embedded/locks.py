"""Kernel locks on files: whoever dies, however it dies, holds nothing any more."""

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
    """One flock on one file. Each instance is a holder of its own, also within one process.

    The file is never deleted: a lock on a deleted file would exclude nobody who comes later.
    """

    def __init__(self, path: Path) -> None:
        # os.open makes descriptors that a child does not inherit, so a lock never outlives its holder by accident.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def fileno(self) -> int:
        return self._descriptor

    def try_shared(self) -> bool:
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Take it alone, or turn one's own shared hold into that; False while anybody else holds it."""
        return self._try(fcntl.LOCK_EX)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Let go. A lock shared with a child process through inheritance stays with the child."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether any process holds the lock alone."""
    lock = FileLock(path)
    try:
        return not lock.try_shared()
    finally:
        lock.close()


@contextmanager
def holding(path: Path, patience: Patience) -> Iterator[None]:
    """Hold the lock alone for the block.

    Raises EmbeddedServerError when others do not let go in time.
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
