"""Identifiers and salts: ascending `per_…` request ids, event ids, salts, and the check of ids from callers."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from itertools import count
from typing import Final

from ledger.core.commitments import SALT_BYTES, as_text
from ledger.core.errors import InputError
from ledger.core.limits import ID_LENGTH_CHARS

_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LETTERS = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
_TICKS_PER_MS = 0x1000
_RANDOM_CHARS = 14
_TAILS_COUNT = 64
_EVENT_BYTES = 16
_SALTS_COUNT = 64


class _Ascending:
    """Ids that sort in order of creation in this process: 48 bits of time and counter, then random bits."""

    def __init__(self) -> None:
        self._last = 0
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Discard the buffered tails in a forked child, which must not repeat its parent's."""
        self._lock = threading.Lock()
        self._tails: list[str] = []

    def next(self, prefix: str) -> str:
        with self._lock:
            self._last = max(self._last + 1, time.time_ns() // 1_000_000 * _TICKS_PER_MS)
            tick = self._last & 0xFFFF_FFFF_FFFF
            if not self._tails:
                self._tails = _random_tails()
            tail = self._tails.pop()
        return f"{prefix}_{tick:012x}{tail}"


def _random_tails() -> list[str]:
    """Return many tails at once, because a system call for randomness takes longer than making an id."""
    letters = os.urandom(_RANDOM_CHARS * _TAILS_COUNT).translate(_LETTERS).decode()
    return [letters[at : at + _RANDOM_CHARS] for at in range(0, len(letters), _RANDOM_CHARS)]


_ascending = _Ascending()


new_request_id: Final = partial(_ascending.next, "per")
"""Return a `per_…` id; later ids of one process sort after earlier ones."""


def new_grant_id() -> str:
    """Return a `grn_…` id for a grant without a request."""
    return _ascending.next("grn")


def new_id(prefix: str) -> str:
    """Return an id with another prefix, for example `tok_…`."""
    return _ascending.next(prefix)


class _EventIds:
    """Event ids, unique but not secret: 128 random bits of the process and a counter, a twentieth of a UUID's cost."""

    def __init__(self) -> None:
        self.reseed()
        os.register_at_fork(after_in_child=self.reseed)

    def reseed(self) -> None:
        self._base = "evt_" + as_text(os.urandom(_EVENT_BYTES))
        # next() on it is one step of the interpreter: no two threads get the same number.
        self._counts = count(1)

    def next(self) -> str:
        # The base has a fixed length, so that base and number cannot be mistaken for another pair.
        return f"{self._base}{next(self._counts):x}"


new_event_id: Final = _EventIds().next
"""Return a unique event id, by which a writer recognises its own append after a lost reply."""


class _Salts:
    """Secret random salts, many from one system call."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._kept: list[str] = []

    def next(self) -> str:
        try:
            # One step of the interpreter: no two threads get the same one.
            return self._kept.pop()
        except IndexError:
            data = os.urandom(SALT_BYTES * _SALTS_COUNT)
            salts = [as_text(data[at : at + SALT_BYTES]) for at in range(0, len(data), SALT_BYTES)]
            self._kept.extend(salts[1:])
            return salts[0]


new_salt: Final = _Salts().next
"""Return a secret salt: 16 random bytes, in base64url."""


CURSOR_DIGITS: Final = 15
"""Digits of a time (ms) in the order of a list, and the most in a cursor."""


def strange_cursor(cursor: str) -> InputError:
    """Return the error for a text that is no cursor of ours."""
    return InputError(f"`{cursor[:40]}` is not a cursor that was handed out")


def cursor_number(text: str, cursor: str, digits: int = CURSOR_DIGITS) -> int:
    """Return the number in a part of a cursor, or in all of it. Raises InputError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= digits):
        raise strange_cursor(cursor)
    return int(text)


def check_id(value: object, what: str) -> str:
    """Return a caller's id: 1 to 200 printable characters without white space. Raises InputError."""
    if not isinstance(value, str):
        raise InputError(f"the {what} must be a string, not {type(value).__name__}")
    if not value:
        raise InputError(f"the {what} is empty")
    if len(value) > ID_LENGTH_CHARS:
        raise InputError(
            f"the {what} `{value[:40]}…` has {len(value)} characters; at most {ID_LENGTH_CHARS} are accepted"
        )
    # The blank is the only printable white space.
    if not value.isprintable() or " " in value:
        raise InputError(f"the {what} {value!a} holds white space or characters that cannot be shown")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"the {what} {value!a} is not valid Unicode") from None
    return value


_NO_PATH_SEGMENTS: Final = frozenset((".", ".."))
"""Ids that no address can hold: browsers take them out of it, however they are encoded (RFC 3986, 5.2.4)."""


def check_new_id(value: object, what: str) -> str:
    """Return the id of a session or request that may be new, as `check_id`, and not `.` or `..`. Raises InputError."""
    checked = check_id(value, what)
    if checked in _NO_PATH_SEGMENTS:
        raise InputError(f"the {what} `{checked}` is none: no page could answer it; choose another one")
    return checked


def is_id(value: str) -> bool:
    """Return whether a text can be an id."""
    try:
        check_id(value, "id")
    except InputError:
        return False
    return True
