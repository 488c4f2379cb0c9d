"""Idempotent writes: a repeated `Idempotency-Key` has no second effect, whichever gateway receives it.

Nothing is stored for it: the id of what is made is derived from the caller and the key, and the log finds that id.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Final

from litestar.params import HeaderParameter

from ledger.core.errors import InputError
from workers.gateway.principals import Principal

KEY_CHARS_MAX: Final = 255

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(name="Idempotency-Key", description="The same key again has no further effect", required=False),
]


def derived(principal: Principal, key: str | None, what: str) -> str | None:
    """Return an id of 26 characters for this caller's key, or None without one. Raises InputError."""
    if key is None:
        return None
    if not 0 < len(key) <= KEY_CHARS_MAX or not key.isprintable():
        raise InputError(f"the idempotency key must have 1 to {KEY_CHARS_MAX} characters that can be shown")
    return sha256(f"{principal.token_id or principal.name}\n{what}\n{key}".encode()).hexdigest()[:26]
