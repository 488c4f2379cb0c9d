"""Reads and writes of files that another user may have placed, and kernel locks on files.

A FIFO would block the reader for ever, a device has no end, and a growing file is never read completely. So files are
opened without blocking, refused unless they are regular, and read up to a bound. A written file gets its name when it
is complete, readable by our user only. The kernel releases a lock when its holder ends, however it ended.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import contextmanager

TYPE_CHECKING = False  # `typing` is slow to import, and a hook reads files at each call
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    MayOpen = Callable[[str], bool]

SMALL_BYTES_MAX = 64 * 1024
"""The bound of a file of settings or of one answer."""

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_regular(path: str | os.PathLike[str], may_open: MayOpen | None = None) -> IO[bytes]:
    """Open a regular file for reading. Raises OSError, with a text in `strerror`, for anything else.

    `may_open` tests the path of the file that was opened, whatever links were put in the place of its name meanwhile.
    """
    descriptor = os.open(path, _FLAGS)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        file = os.fdopen(descriptor, "rb")
        if may_open is None or may_open(_path_of(descriptor)):
            return file
        file.close()
        raise PermissionError(errno.EACCES, "it may not be opened", os.fspath(path))
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def _path_of(descriptor: int) -> str:
    of_macos = getattr(fcntl, "F_GETPATH", None)
    if of_macos is not None:
        return os.fsdecode(fcntl.fcntl(descriptor, of_macos, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - pathlib is slow to import


def read_regular(path: str | os.PathLike[str], bytes_max: int = SMALL_BYTES_MAX) -> bytes:
    """Return the content of a regular file. Raises OSError, also for one of more than `bytes_max` bytes."""
    with open_regular(path) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", os.fspath(path))
    return content


@contextmanager
def private_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that gets the name `path` when the block ends without an error; mode 0600. Raises OSError."""
    whole = os.fspath(path)
    # Processes of two containers that share the folder may have the same id.
    unfinished = f"{whole}.{os.uname().nodename}-{os.getpid()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    _remove(unfinished)  # left by a killed process with the same id
    with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(unfinished, whole)  # noqa: PTH105 - one module for all of this
        finally:
            _remove(unfinished)


def keep_names(folder: str | os.PathLike[str]) -> None:
    """Write the names in a folder to the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108 - as above
    except FileNotFoundError:
        return


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
