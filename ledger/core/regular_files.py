"""Reads and writes of files that another user may have placed.

A FIFO would block the reader for ever, a device has no end, and a growing file is never read completely. So files are
opened without blocking, refused unless they are regular, and read up to a bound. A written file gets its name when it
is complete, readable by our user only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

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


def read_regular(path: str | os.PathLike[str], bytes_max: int) -> bytes:
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


@contextmanager
def private_append(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a regular file to append to it; a new one has mode 0600. Raises OSError, with a text in `strerror`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        yield file


@contextmanager
def kept_file(path: str | os.PathLike[str], whole: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file to go on with; mode 0600. It gets the name `whole` when the block ends without an error, else it stays.

    Raises OSError, with a text in `strerror`, for anything but a regular file, and while another process has it open so.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o600), "r+b") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        if state.st_dev != os.stat(os.path.dirname(os.path.abspath(whole))).st_dev:  # noqa: PTH100,PTH116,PTH120
            raise OSError(errno.EXDEV, f"it is in another file system than `{os.fspath(whole)}`", os.fspath(path))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EAGAIN, "another process writes it", os.fspath(path)) from None
        os.fchmod(file.fileno(), 0o600)
        yield file
        file.flush()
        os.fsync(file.fileno())
        os.replace(path, whole)  # noqa: PTH105 - one module for all of this


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108 - as above
    except FileNotFoundError:
        return
