"""Reads and writes of files that another user may have placed.

A FIFO would block the reader for ever, a device has no end, and a growing file is never read completely. So files are
opened without blocking, refused unless they are regular, and read up to a bound. A written file gets its name when it
is complete, readable by our user only.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager

TYPE_CHECKING = False  # `typing` is slow to import, and a hook reads files at each call
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

SMALL_BYTES_MAX = 64 * 1024
"""The bound of a file of settings or of one answer."""

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading. Raises OSError, with a text in `strerror`, for anything else."""
    descriptor = os.open(path, _FLAGS)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


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


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108 - as above
    except FileNotFoundError:
        return
