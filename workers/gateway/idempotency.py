"""The same write with the same `Idempotency-Key` has its effect once, whichever gateway it reaches.

Nothing is kept for it: what is made bears an id made of the caller and the key, and the log knows that id.
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
    """26 characters that stand for this caller's key, or None without one. Raises InputError."""
    if key is None:
        return None
    if not 0 < len(key) <= KEY_CHARS_MAX or not key.isprintable():
        raise InputError(f"the idempotency key must have 1 to {KEY_CHARS_MAX} characters that can be shown")
    return sha256(f"{principal.token_id or principal.name}\n{what}\n{key}".encode()).hexdigest()[:26]
