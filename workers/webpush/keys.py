"""The VAPID key of a deployment (RFC 8292), by which push services know its messages as those of one sender.

It is derived from the deployment's secret, as the key of answer links is at first: gateways and notifiers have the same
one, and nothing more is stored. Another key would end all subscriptions.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha512
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

PURPOSE: Final = b"permission-ledger web push key v1"

ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the group of P-256."""


class VapidKey:
    """The key pair; it never shows its private part."""

    def __init__(self, secret: bytes) -> None:
        # 512 bits modulo a number of 256: no scalar is measurably likelier than another.
        scalar = int.from_bytes(hmac.new(secret, PURPOSE, sha512).digest()) % (ORDER - 1) + 1
        self._private = ec.derive_private_key(scalar, ec.SECP256R1())

    @property
    def public(self) -> str:
        """Return the public key as `PushManager.subscribe` takes it: an uncompressed point in base64url."""
        point = self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return urlsafe_b64encode(point).rstrip(b"=").decode()

    @property
    def pems(self) -> tuple[bytes, bytes]:
        """Return private and public key as PEM, for the encryption library alone."""
        private = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = self._private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return private, public
