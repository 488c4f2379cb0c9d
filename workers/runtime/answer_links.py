"""Signed answer links: only a process of this ledger can make one.

Whoever has the link may answer: it is bound to one request as it was shown (its digest), to the person it was sent to,
and to a time. The signing key lies on the ledger's server, shared by all gateways and notifiers; a new key ends all
links at once. The person's present rights are read when a link is used (`rights`).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec
from itsdangerous import BadSignature, URLSafeSerializer

from ledger.core.errors import LedgerError
from ledger.core.limits import ID_LENGTH_CHARS

SALT: Final = "permission-ledger answer link"

LINK_LENGTH_CHARS: Final = 4 * (4 * ID_LENGTH_CHARS + 1000)
"""The longest link that is read; no valid one is longer."""


class BadLinkError(LedgerError):
    """A link that this ledger did not make, or that was cut short."""

    code = "BAD_LINK"


class LinkExpiredError(LedgerError):
    """An expired link."""

    code = "LINK_EXPIRED"


class AnswerLink(msgspec.Struct, frozen=True, array_like=True):
    """`name` is the person who answers with it; `expires_ms` is a server time."""

    session: str
    request_id: str
    digest: str
    name: str
    expires_ms: int


class AnswerLinks:
    """Makes and reads links."""

    def __init__(self, secret: bytes) -> None:
        self._serializer = URLSafeSerializer(secret, salt=SALT, signer_kwargs={"digest_method": sha256})

    def sign(self, link: AnswerLink) -> str:
        """Return the last part of the link's address."""
        return str(self._serializer.dumps(msgspec.to_builtins(link)))

    def read(self, text: str, now_ms: int) -> AnswerLink:
        """Parse and verify a link. Raises BadLinkError, LinkExpiredError."""
        link = self._read(text)
        if now_ms >= link.expires_ms:
            raise LinkExpiredError("this link has expired; open the inbox, or wait for the next notification")
        return link

    def _read(self, text: str) -> AnswerLink:
        if len(text) <= LINK_LENGTH_CHARS:
            try:
                return msgspec.convert(self._serializer.loads(text), AnswerLink)
            except (BadSignature, msgspec.ValidationError):
                pass
        raise BadLinkError("this link is not one of this ledger's; copy it whole, or open the inbox")
