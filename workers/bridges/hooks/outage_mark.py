"""The mark of an outage: a hook that waited its grace in vain leaves it, and later hooks do not wait.

An empty file of the data folder; its time is that of the last failure. It only shortens a wait, so one that an agent
made or removed allows nothing. The name has the user, the gateway and the grace: a mark counts for equal hooks alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from time import time

from workers.transport.place import ADDRESS, data_folder
from workers.transport.trusted import digest_of

MARK_SECONDS = 600.0
"""The time a mark counts after the last failure. Later the gateway may have been back, unseen by a hook."""

_MARKING = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OutageMark:
    """The mark for one grace, in seconds; a hook without a grace needs none."""

    def __init__(self, grace: float) -> None:
        about = f"{os.geteuid()} {grace:g} {os.environ.get(ADDRESS, '')}"
        self._path = f"{data_folder()}/outage-{digest_of(about.encode())[:16]}" if grace else None

    def stands(self) -> bool:
        """Return whether a hook waited in vain a short time ago. A time in the future is no such time."""
        if self._path is None:
            return False
        try:
            return 0 <= time() - os.lstat(self._path).st_mtime <= MARK_SECONDS
        except OSError:
            return False

    def set(self) -> None:
        """Leave the mark, or renew it. Without a folder to write to the next hook waits, too."""
        if self._path is None:
            return
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)  # noqa: PTH103,PTH120 - pathlib is slow
            descriptor = os.open(self._path, _MARKING, 0o600)
            try:
                now = time()
                os.utime(descriptor, (now, now))
            finally:
                os.close(descriptor)

    def remove(self) -> None:
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108 - pathlib is slow
