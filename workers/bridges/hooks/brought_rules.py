"""The rules file of a hook's line, identified to the gateway by a digest in every question.

Each call starts a new hook. The gateway compares the digest with that of the session's rules; the agent could write a
note kept on this machine, and a stricter file would never be brought.
"""

from __future__ import annotations

import os

from ledger.core.regular_files import read_regular
from workers.transport.errors import BridgeError
from workers.transport.trusted import digest_of, load_records, why_untrusted

RULES_BYTES_MAX = 512 * 1024


class BroughtRules:
    """The rules of one question. Without a file of rules the gateway's own judge, and nothing is brought."""

    def __init__(self, file: str | None, *how: str | None) -> None:
        """`how` is everything else that decides the reading of the file: its dialect and its profile."""
        self._file = file
        self._how = how
        self._stamped = self._stamp()

    def digest(self) -> str | None:
        """Return the SHA-256 of the file's bytes, of how they are read and of the trust in them. Raises BridgeError."""
        if self._file is None:
            return None
        try:
            content = read_regular(self._file, RULES_BYTES_MAX)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise BridgeError(f"the rules `{self._file}` cannot be read: {why}") from error
        reason = why_untrusted(self._file, digest_of(content), load_records())
        return digest_of(f"{self._file}\n{self._how}\n{reason}\n".encode() + content)

    def have_changed(self) -> bool:
        """Return whether the file has changed since the last call of this method."""
        before, self._stamped = self._stamped, self._stamp()
        return before != self._stamped

    def _stamp(self) -> tuple[int, ...]:
        if self._file is None:
            return ()
        try:
            status = os.stat(self._file)  # noqa: PTH116 - pathlib is slow to import
        except OSError:
            return (0,)
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
