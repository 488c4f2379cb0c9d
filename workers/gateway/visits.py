"""Visits of browsers to a provider of identities: begun here, and found again when the browser comes back."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

import msgspec
from itsdangerous import BadSignature, TimestampSigner

from ledger.core.errors import UnauthorizedError

STATE_BYTES: Final = 32
VISIT_SECONDS: Final = 600
"""Time limit for signing in at the provider."""

COOKIE_CHARS_MAX: Final = 500
_SALT: Final = "permission-ledger visit to a provider"


class Visit(msgspec.Struct, frozen=True):
    """The secrets of one visit: `state` and `nonce` go to the provider, `verifier` only with the code."""

    state: str
    nonce: str
    verifier: str


class Visits:
    """Starts visits and finds them again. `secret` is the deployment's."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._signer = TimestampSigner(secret, salt=_SALT, digest_method=sha256)

    def begin(self) -> tuple[Visit, str]:
        """Return a new visit and the text of its cookie."""
        state = secrets.token_urlsafe(STATE_BYTES)
        return self._of(state), self._signer.sign(state).decode()

    def found(self, cookie: str | None, state: str | None) -> Visit:
        """Return the visit of a returning browser. Raises UnauthorizedError where another browser started it."""
        if cookie is None or state is None or len(cookie) > COOKIE_CHARS_MAX:
            raise UnauthorizedError("this browser did not begin this sign-in; begin it here")
        try:
            begun = self._signer.unsign(cookie, max_age=VISIT_SECONDS).decode()
        except BadSignature:
            raise UnauthorizedError("this sign-in took too long, or was not begun here; begin it again") from None
        if not hmac.compare_digest(begun.encode(), state.encode()):
            raise UnauthorizedError("this is the answer to another sign-in; begin it again")
        return self._of(begun)

    def _of(self, state: str) -> Visit:
        return Visit(state, self._derived("nonce", state), self._derived("verifier", state))

    def _derived(self, what: str, state: str) -> str:
        digest = hmac.new(self._secret, f"{_SALT}\n{what}\n{state}".encode(), sha256).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
