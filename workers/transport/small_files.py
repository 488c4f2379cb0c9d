"""Reads of small files that never block. The ledger's own reader would import the ledger."""

from __future__ import annotations

import errno
import os

FILE_BYTES_MAX = 64 * 1024
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KIND = 0o170000
_REGULAR = 0o100000


def open_regular(path: str) -> int:
    """Return a descriptor to read a regular file from. Raises OSError for anything else; nothing blocks."""
    descriptor = os.open(path, _FLAGS)
    # `stat` is slow to import.
    if os.fstat(descriptor).st_mode & _KIND != _REGULAR:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return descriptor


def read_small(path: str, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Return the content of a regular file. Raises OSError for anything else, and for more than `bytes_max` bytes."""
    descriptor = open_regular(path)
    try:
        content = b""
        while piece := os.read(descriptor, bytes_max + 1 - len(content)):
            content += piece
    finally:
        os.close(descriptor)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", path)
    return content
