"""The rules file of a hook's line: its state when a session last got its rules, kept from one hook to the next.

Hooks come and go with every call, so what one of them brought to the gateway is noted in the data folder.
"""

from __future__ import annotations

import os
from contextlib import suppress

from workers.bridges.naming import folder_name
from workers.bridges.place import data_folder
from workers.bridges.small_files import read_small

FOLDER = "brought-rules"


class BroughtRules:
    """The rules of one session. With no file of rules the gateway's own judge, and nothing is brought."""

    def __init__(self, session: str, file: str | None) -> None:
        self._file = file
        self._note = f"{data_folder()}/{FOLDER}/{folder_name(session)}"
        self._current = self._stamp()
        self._done_with: str | None = None

    @property
    def are_known(self) -> bool:
        """Return whether some hook has brought rules to this session before."""
        return self._file is None or self._noted() is not None

    def have_changed(self) -> bool:
        """Look at the file; return whether it is another one than the session was given."""
        if self._file is None:
            return False
        self._current = self._stamp()
        return self._current not in (self._done_with, self._noted())

    def note(self) -> None:
        """Note that the session has the rules of the file as it was last looked at."""
        if self._file is None:
            return
        self._done_with = self._current
        # Not noted, the next hook brings them again.
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._note), mode=0o700, exist_ok=True)  # noqa: PTH103,PTH120 - pathlib is slow
            written = f"{self._note}.{os.getpid()}"
            with open(written, "w", encoding="utf-8") as note:  # noqa: PTH123 - pathlib is slow to import
                note.write(self._current)
            os.replace(written, self._note)  # noqa: PTH105

    def give_up(self) -> None:
        """Bring the file no more in this process before it changes again: it is no rules, or was refused."""
        self._done_with = self._current

    def forget(self) -> None:
        """The agent's session has ended."""
        with suppress(OSError):
            os.unlink(self._note)  # noqa: PTH108

    def _stamp(self) -> str:
        if self._file is None:
            return ""
        try:
            status = os.stat(self._file)  # noqa: PTH116
        except OSError:
            return f"{self._file}\ngone"
        return f"{self._file}\n{status.st_mtime_ns} {status.st_ctime_ns} {status.st_size} {status.st_ino}"

    def _noted(self) -> str | None:
        try:
            return read_small(self._note).decode()
        except (OSError, UnicodeDecodeError):
            return None
