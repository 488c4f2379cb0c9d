"""The disk on which a server of this machine keeps its files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import msgspec

from ledger.core.addresses import split_address

FREE_BYTES_MIN: Final = 64 * 1024 * 1024
"""Less is a full disk, whatever its size."""

FREE_SHARE_MIN: Final = 0.05
FREE_BYTES_WELL: Final = 10 * 1024 * 1024 * 1024
"""This much is enough, whatever the disk's size."""

_LOCAL: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
_MIB: Final = 1024 * 1024


class DiskSpace(msgspec.Struct, frozen=True):
    """Free and total bytes of the disk of a folder."""

    folder: Path
    free_bytes: int
    total_bytes: int

    @property
    def is_low(self) -> bool:
        share = self.free_bytes / max(self.total_bytes, 1)
        return self.free_bytes < FREE_BYTES_MIN or (share < FREE_SHARE_MIN and self.free_bytes < FREE_BYTES_WELL)

    def __str__(self) -> str:
        used = 100 - 100 * self.free_bytes // max(self.total_bytes, 1)
        free, total = self.free_bytes // _MIB, self.total_bytes // _MIB
        return f"{free} MiB of {total} MiB are free ({used} % used) in {self.folder}"


def is_on_this_machine(url: str) -> bool:
    """Return whether the URL names a server here: embedded, behind a socket, or on loopback."""
    parts = split_address(url.partition(",")[0])
    return parts.scheme in ("embedded", "unix") or (parts.hostname or "") in _LOCAL


def space_of(folder: Path) -> DiskSpace | None:
    """Return the space of a folder's disk; None if the folder cannot be read: on another machine, or in a container."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return DiskSpace(folder, usage.free, usage.total)
