"""Locks on files of the data folder. The kernel drops the lock of a process that has ended, however it ended."""

from __future__ import annotations

import fcntl
import os


def locked(path: str, flags: int) -> int | None:
    """Return the descriptor of the locked file; None if another process has it. Raises OSError of `open`."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # If its owner removed the file between open and lock, the lock is on a deleted file.
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:  # noqa: PTH116 - pathlib is slow to import
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
