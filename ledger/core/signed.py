"""Challenges derived from the claims to which a person consents. Pure.

A challenge is the SHA-256 of `permission-ledger passkey v1 LF` and the canonical JSON of the claims, so it can be
recomputed from the event, and a signature over it is valid only for these claims.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from ledger.core.codec import canonical_json
from ledger.core.commitments import keyed
from ledger.core.proofs import Claims

_PREFIX: Final = b"permission-ledger passkey v1\n"
_MAC_CHARS: Final = 32


def challenge_of(claims: Claims) -> bytes:
    """Return the 32 bytes that an authenticator signs for these claims."""
    return sha256(_PREFIX + canonical_json(claims)).digest()


def text_digest(text: str) -> str:
    """Return the lower-case hex SHA-256 of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def pattern_digest(pattern: str, salt: str) -> str:
    """Return the digest of a granted pattern, keyed with the salt of its request."""
    return keyed(text_digest(pattern), salt)


def issue(claims: Claims, secret: bytes) -> Claims:
    """Return the claims with a nonce that authenticates them as issued by this deployment."""
    return replace(claims, nonce=f"{claims.nonce}.{_mac(claims, secret)}")


def is_issued(claims: Claims, secret: bytes) -> bool:
    """Return whether this deployment issued the nonce for exactly these claims."""
    random, _, mac = claims.nonce.rpartition(".")
    return bool(random) and hmac.compare_digest(_mac(replace(claims, nonce=random), secret).encode(), mac.encode())


def _mac(claims: Claims, secret: bytes) -> str:
    return hmac.new(secret, b"passkey nonce\n" + canonical_json(claims), sha256).hexdigest()[:_MAC_CHARS]
