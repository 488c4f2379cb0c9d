"""An authenticator in software: makes passkeys and signs challenges as browsers hand them over (WebAuthn level 2)."""

from __future__ import annotations

import json
import secrets
import struct
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any, Final

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from ledger.core.event_shapes import Assertion, Signed

ORIGIN: Final = "http://localhost:8420"
RP_ID: Final = "localhost"

_PRESENT: Final = 0x01
_VERIFIED: Final = 0x04
_HAS_CREDENTIAL: Final = 0x40


def b64(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


class Authenticator:
    """One passkey; `verifies=False` is one that is touched without a PIN or a fingerprint."""

    def __init__(self, *, verifies: bool = True, counts: bool = True, rp_id: str = RP_ID, origin: str = ORIGIN) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.credential_id = secrets.token_bytes(32)
        self.verifies = verifies
        self.rp_id = rp_id
        self.origin = origin
        self.count = 0
        self._counts = counts

    @property
    def id(self) -> str:
        return b64(self.credential_id)

    def _public_key(self) -> bytes:
        numbers = self._key.public_key().public_numbers()
        x, y = (part.to_bytes(32, "big") for part in (numbers.x, numbers.y))
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})

    def _data(self, flags: int, attested: bytes = b"") -> bytes:
        if self._counts:
            self.count += 1
        flags |= _PRESENT | (_VERIFIED if self.verifies else 0)
        return sha256(self.rp_id.encode()).digest() + struct.pack(">BI", flags, self.count) + attested

    def _client_data(self, kind: str, challenge: bytes, **more: Any) -> bytes:
        return json.dumps({"type": kind, "challenge": b64(challenge), "origin": self.origin, **more}).encode()

    def create(self, challenge: bytes) -> dict[str, Any]:
        """Return the response of `navigator.credentials.create`."""
        attested = bytes(16) + struct.pack(">H", len(self.credential_id)) + self.credential_id + self._public_key()
        statement = {"fmt": "none", "attStmt": {}, "authData": self._data(_HAS_CREDENTIAL, attested)}
        return {
            "id": self.id,
            "rawId": self.id,
            "type": "public-key",
            "response": {
                "clientDataJSON": b64(self._client_data("webauthn.create", challenge)),
                "attestationObject": b64(cbor2.dumps(statement)),
            },
        }

    def get(self, challenge: bytes, **client_data: Any) -> Assertion:
        """Return the assertion that `navigator.credentials.get` returns."""
        data, client = self._data(0), self._client_data("webauthn.get", challenge, **client_data)
        signature = self._key.sign(data + sha256(client).digest(), ec.ECDSA(SHA256()))
        return Assertion(
            credential_id=self.id,
            authenticator_data=b64(data),
            client_data=b64(client),
            signature=b64(signature),
        )

    def sign(self, challenge: Any, **client_data: Any) -> Signed:
        """Return a signed challenge of `ledger.passkeys`."""
        return Signed(
            assertion=self.get(challenge.bytes, **client_data),
            nonce=challenge.claims.nonce,
            until_ms=challenge.claims.until_ms,
            rp_id=self.rp_id,
            origin=self.origin,
        )
