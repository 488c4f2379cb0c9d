"""Errors for a server's refusals, with the remedy."""

from __future__ import annotations

from typing import Final

from ledger.core.errors import DamageError, LedgerError, SetupError, StoreError

_LOG_IN_HINT: Final = "correct USER:PASSWORD in --url or PERMISSION_LEDGER_URL; it stands between `//` and `@`"

_ADMINISTRATORS: Final = (
    "use an administrator's user in --url: docs/guides/operating.md lists the rights that redaction and sealing need"
)

_HINTS: Final = {
    "NOAUTH": _LOG_IN_HINT,
    "WRONGPASS": _LOG_IN_HINT,
    "NOPERM": "give this user the rights that docs/guides/operating.md lists, or another user in the URL",
    "OOM": "raise maxmemory on the server",
    "MISCONF": "free space on the server's disk",
    "READONLY": "give the URL of the primary",
    "MOVED": "write `redis+cluster://` in the URL",
    "NOREPLICAS": "start the server's replicas, or lower min-replicas-to-write",
}

_SETUP = {
    "NOAUTH": "the server wants a password; put it into the URL",
    "WRONGPASS": "the server does not take this user name or password",
    "NOPERM": "the server does not let this user run what the ledger needs",
    "OOM": "the server has no memory left; raise maxmemory (nothing that was accepted is lost)",
    "MISCONF": "the server cannot write to its disk and takes no more writes; free space there",
    "READONLY": "this server is a read-only replica; give the URL of the primary",
    "MOVED": "this server is one node of a cluster; write redis+cluster:// in the URL",
    "NOREPLICAS": "the server has fewer replicas than min-replicas-to-write demands",
}

_PASSING = {
    "LOADING": "the server is still loading its data; try again in a moment",
    "BUSY": "the server is busy with a script; try again in a moment",
    "MASTERDOWN": "the server has lost its primary; try again in a moment",
}


_FULL: Final = "ERR max number of clients"


class Refusal(Exception):  # noqa: N818 - a reply among others
    """A server's refusal of a command, with the text of its reply."""

    @property
    def code(self) -> str:
        """Return the first word of the reply."""
        return str(self).partition(" ")[0]

    @property
    def sends_away(self) -> bool:
        """Return whether the server accepts no commands over this connection."""
        return self.code == "LOADING" or str(self).startswith(_FULL)

    @property
    def will_pass(self) -> bool:
        """Return whether to try again: the server is not ready yet, or has too many clients."""
        return self.sends_away or self.code in _PASSING

    @property
    def redirection(self) -> tuple[int, str, int]:
        """Return the slot, host and port of MOVED or ASK; the host may be empty."""
        _, slot, address = str(self).split(" ")
        host, _, port = address.rpartition(":")
        return int(slot), host, int(port)


def refusal_of(error: Refusal) -> LedgerError:
    """Return the error to raise for a server's refusal, which quotes it."""
    text = str(error)
    word = error.code
    if word == "WRONGTYPE":
        return DamageError(f"a key of the ledger holds something else: {text}; something else writes to this server")
    if word in _SETUP:
        return SetupError(f"{_SETUP[word]} (it said: {text})", hint=_HINTS[word])
    if word in _PASSING:
        return StoreError(f"{_PASSING[word]} (it said: {text})")
    return StoreError(f"the server refused: {text}")


def right_refused(error: Refusal, purpose: str) -> SetupError | None:
    """Return the error for a right that a script's user lacks; None for another refusal."""
    # Inside a script the refusal of a command has no code of its own.
    text = str(error)
    if error.code == "NOPERM" or "ACL failure" in text or "can't run this command" in text:
        return SetupError(f"the server does not let this user {purpose} (it said: {text})", hint=_ADMINISTRATORS)
    return None
