"""The file of a run that was given an id: it makes a repeated run the same runner, and two at once impossible.

The file holds the token that is part of the runner of the claim. A run that was killed leaves it, so the same request,
run again on this machine, is the same runner. A run that lives holds a lock on it, and so does the command that it
started, since it inherits the descriptor.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from ledger.core.file_locks import locked
from workers.bridges.session_ids import folder_name
from workers.transport.place import data_folder

FOLDER: Final = "runs"
TOKEN_BYTES: Final = 16
_TOKEN_CHARS: Final = 2 * TOKEN_BYTES


class RunFile:
    """The token of a run, and the lock on its file. Without a file the token is this process's alone."""

    def __init__(self, token: str, path: Path | None = None, descriptor: int = -1) -> None:
        self.token = token
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def alone(cls) -> Self:
        """Return a run that no other process can repeat."""
        return cls(os.urandom(TOKEN_BYTES).hex())

    @classmethod
    def take(cls, session: str, request_id: str) -> Self | None:
        """Lock the file of a request, and make it if there is none; None if a process runs the request now."""
        name = hashlib.sha256(request_id.encode()).hexdigest()[:_TOKEN_CHARS]
        path = Path(data_folder(), FOLDER, folder_name(session), name)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = locked(str(path), os.O_RDWR | os.O_CREAT)
        except OSError:
            # Without a file a repeated run is another runner, and is refused.
            return cls.alone()
        if descriptor is None:
            return None
        os.set_inheritable(descriptor, True)
        found = cls(os.pread(descriptor, _TOKEN_CHARS, 0).decode("ascii", "replace"), path, descriptor)
        if len(found.token) != _TOKEN_CHARS:
            found.renew()
        return found

    def renew(self) -> None:
        """Write another token: the claim under the present one was given back."""
        self.token = os.urandom(TOKEN_BYTES).hex()
        if self._descriptor >= 0:
            os.pwrite(self._descriptor, self.token.encode(), 0)

    def done(self) -> None:
        """Remove the file: the run has ended and is recorded."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
        self.leave()

    def leave(self) -> None:
        """Release the lock, and keep the file for a repeated run."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
