"""Errors for a server's refusals, with the remedy."""

from __future__ import annotations

from typing import Final

from redis.exceptions import RedisError

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


def refusal_code(error: RedisError) -> str:
    """Return the error code, the first word of the reply; redis-py strips the known ones from the text."""
    return error.status_code or str(error).split(" ", 1)[0]


def is_passing(error: RedisError) -> bool:
    """Return whether a refusal is temporary (the server is not ready yet)."""
    return refusal_code(error) in _PASSING


def refusal_of(error: RedisError) -> LedgerError:
    """Return the error to raise for a server's refusal, which quotes it."""
    text = str(error)
    word = refusal_code(error)
    if word == "WRONGTYPE":
        return DamageError(f"a key of the ledger holds something else: {text}; something else writes to this server")
    if word in _SETUP:
        return SetupError(f"{_SETUP[word]} (it said: {text})", hint=_HINTS[word])
    if word in _PASSING:
        return StoreError(f"{_PASSING[word]} (it said: {text})")
    return StoreError(f"the server refused: {text}")


def right_refused(error: RedisError, purpose: str) -> SetupError | None:
    """Return the error for a right that a script's user lacks; None for another refusal."""
    # Inside a script the refusal of a command has no code of its own.
    text = str(error)
    if refusal_code(error) == "NOPERM" or "ACL failure" in text or "can't run this command" in text:
        return SetupError(f"the server does not let this user {purpose} (it said: {text})", hint=_ADMINISTRATORS)
    return None
