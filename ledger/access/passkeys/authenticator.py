"""Checks of authenticators' responses by the package `webauthn` (WebAuthn level 2, sections 7.1 and 7.2). Pure.

The package is of the extra `passkeys` and is imported only here, at the first check.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any, Final

import msgspec

from ledger.core.addresses import split_address
from ledger.core.errors import PasskeyRefusedError
from ledger.core.extras import require_extra
from ledger.core.proofs import Assertion, Proof
from ledger.core.signed import challenge_of

ASSERTION_BYTES: Final = 16 * 1024
"""The limit on an authenticator's response as JSON; real ones take about 2 kB."""


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a new passkey from its authenticator."""

    credential_id: str
    public_key: str
    sign_count: int


def check_registration(response: Any, challenge: bytes, *, rp_id: str, origin: str) -> Registered:
    """Return the passkey of a registration with user verification. Raises PasskeyRefusedError, MissingExtraError."""
    require_extra("passkeys", "a passkey")
    import webauthn  # noqa: PLC0415 - an extra
    from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415 - an extra

    _check_size(response)
    try:
        found = webauthn.verify_registration_response(
            credential=response,
            expected_challenge=challenge,
            expected_rp_id=rp_id,
            expected_origin=origin,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError) as error:
        raise PasskeyRefusedError(f"the passkey was not registered: {error}") from error
    return Registered(
        credential_id=base64url(found.credential_id),
        public_key=base64url(found.credential_public_key),
        sign_count=found.sign_count,
    )


def check_proof(proof: Proof) -> int:
    """Check the signature of a proof's key over its claims, with the user verified; return the authenticator's counter.

    The caller must check whose key it is. Raises PasskeyRefusedError, MissingExtraError.
    """
    require_extra("passkeys", "an answer signed with a passkey")
    import webauthn  # noqa: PLC0415 - an extra
    from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415 - an extra

    if not belongs_to(proof.origin, proof.rp_id):
        raise PasskeyRefusedError(f"the origin `{proof.origin}` does not belong to the relying party `{proof.rp_id}`")
    response = _response(proof.assertion)
    _check_size(response)
    try:
        found = webauthn.verify_authentication_response(
            credential=response,
            expected_challenge=challenge_of(proof.claims),
            expected_rp_id=proof.rp_id,
            expected_origin=proof.origin,
            credential_public_key=webauthn.base64url_to_bytes(proof.public_key),
            credential_current_sign_count=0,
            require_user_verification=True,
        )
        _refuse_embedded(webauthn.base64url_to_bytes(proof.assertion.client_data))
    except (WebAuthnException, ValueError, KeyError, TypeError) as error:
        raise PasskeyRefusedError(f"the passkey's signature was not accepted: {error}") from error
    return found.new_sign_count


def belongs_to(origin: str, rp_id: str) -> bool:
    """Return whether a page of this origin may use passkeys of a relying party (a domain, or one above it)."""
    parts = split_address(origin)
    host = parts.hostname or ""
    secure = parts.scheme == "https" or host == "localhost" or host.endswith(".localhost")
    return secure and bool(rp_id) and (host == rp_id or host.endswith(f".{rp_id}"))


def _response(assertion: Assertion) -> dict[str, Any]:
    return {
        "id": assertion.credential_id,
        "rawId": assertion.credential_id,
        "type": "public-key",
        "response": {
            "clientDataJSON": assertion.client_data,
            "authenticatorData": assertion.authenticator_data,
            "signature": assertion.signature,
        },
    }


def _check_size(response: Any) -> None:
    try:
        size = len(msgspec.json.encode(response))
    except (TypeError, ValueError, RecursionError) as error:
        raise PasskeyRefusedError(f"the passkey's response is not JSON: {error}") from error
    if size > ASSERTION_BYTES:
        raise PasskeyRefusedError(f"the passkey's response takes {size} bytes; at most {ASSERTION_BYTES} are accepted")


def _refuse_embedded(client_data: bytes) -> None:
    """Raise PasskeyRefusedError for a signature in a frame of another origin, where a person may not see the claims."""
    if json.loads(client_data).get("crossOrigin"):
        raise ValueError("it was made in a frame inside another page")


def base64url(value: bytes) -> str:
    """Encode bytes as base64url without padding, WebAuthn's form in JSON."""
    return urlsafe_b64encode(value).rstrip(b"=").decode()
