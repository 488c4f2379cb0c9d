"""Kernel locks on files, which the kernel releases when their holder ends, however it ended."""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from pathlib import Path


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
        return _try(self._descriptor, fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Acquire the lock exclusively, or upgrade a shared hold; return False while another holder has it."""
        return _try(self._descriptor, fcntl.LOCK_EX)

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


def locked(path: str, flags: int) -> int | None:
    """Return the descriptor of the locked file, which its owner may delete; None if another process has it.

    Raises OSError of `open`.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        # If its owner removed the file between open and lock, the lock is on a deleted file.
        if _try(descriptor, fcntl.LOCK_EX) and os.fstat(descriptor).st_ino == os.stat(path).st_ino:  # noqa: PTH116 - pathlib is slow to import
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
