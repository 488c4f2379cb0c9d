"""Errors of the embedded server; each message names the remedy."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ledger.core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FREE_SPACE_MIN_BYTES: Final = 1024 * 1024
"""With less free space, a failed start is attributed to a full disk."""

_WAYS_OUT: Final = {
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "your disk quota is used up; free some space and try again",
    errno.EACCES: "permission denied; name a folder that you may write in (PERMISSION_LEDGER_HOME)",
    errno.EPERM: "operation not permitted; name a folder that you may write in (PERMISSION_LEDGER_HOME)",
    errno.EROFS: "the file system is read-only; name a folder that you may write in (PERMISSION_LEDGER_HOME)",
    errno.ENOTDIR: "a part of that path is a file; name a folder (PERMISSION_LEDGER_HOME)",
    errno.EEXIST: "it is a file; name a folder (PERMISSION_LEDGER_HOME)",
    errno.EMFILE: "too many open files; close some, or raise the limit (`ulimit -n`)",
    errno.ENOLCK: "its file system has no file locks; name a folder on a local disk (PERMISSION_LEDGER_HOME)",
    errno.EOPNOTSUPP: "its file system has no file locks; name a folder on a local disk (PERMISSION_LEDGER_HOME)",
    errno.ENAMETOOLONG: "the path is too long; name a shorter one (PERMISSION_LEDGER_HOME)",
}


class EmbeddedServerError(StoreError):
    """A data folder's server cannot be started, reached or stopped."""

    code = "EMBEDDED_SERVER"


class NoServerBinaryError(EmbeddedServerError):
    """No usable `redis-server` or `valkey-server` on this machine."""

    code = "NO_SERVER"


class AbandonedError(Exception):
    """The caller gave up while a thread was waiting on its behalf; never leaves this package."""


def folder_error(folder: Path, error: OSError) -> EmbeddedServerError:
    """Return an operating system error as one sentence about the user's folder."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    way_out = _WAYS_OUT.get(error.errno or 0, f"{reason}; name another folder (PERMISSION_LEDGER_HOME)")
    return EmbeddedServerError(f"cannot use the data folder `{folder}`: {way_out}", folder=str(folder), reason=reason)


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn every `OSError` of the block into an `EmbeddedServerError` about `folder`."""
    try:
        yield
    except OSError as error:
        raise folder_error(folder, error) from error


def is_disk_full(folder: Path) -> bool:
    """Return whether the folder's disk is full, which a server without room for its log cannot report."""
    try:
        return shutil.disk_usage(folder).free < FREE_SPACE_MIN_BYTES
    except OSError:
        return False
