"""Verification of answers against known passkeys, by the package `webauthn` (WebAuthn level 2, 7.1 and 7.2). Pure.

The same check is made before an allow is returned to an agent, and by `verify` over a whole stream.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.access.passkeys import Passkey
from ledger.core.addresses import split_address
from ledger.core.errors import PasskeyRefusedError
from ledger.core.event_shapes import AnswerClaims, Assertion, EnrolmentClaims, Proof
from ledger.core.events import GrantBounds, GrantedDetail
from ledger.core.extras import require_extra
from ledger.core.policy import Verdict
from ledger.policy.demands import asks_passkey, asks_signed_grants
from ledger.session.commands import GivenReply
from ledger.session.signed_claims import answer_claims, challenge_of, pattern_digest
from ledger.session.state import Agreement, Request, SessionState, Settled

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
        client_data = json.loads(webauthn.base64url_to_bytes(proof.assertion.client_data))
        is_embedded = bool(client_data.get("crossOrigin"))
    except (WebAuthnException, ValueError, KeyError, TypeError) as error:
        raise PasskeyRefusedError(f"the passkey's signature was not accepted: {error}") from error
    if is_embedded:  # where a person may not see the claims
        raise PasskeyRefusedError(
            "the passkey's signature was not accepted: it was made in a frame inside another page"
        )
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


def base64url(value: bytes) -> str:
    """Encode bytes as base64url without padding, WebAuthn's form in JSON."""
    return urlsafe_b64encode(value).rstrip(b"=").decode()


CHALLENGE_MS: Final = 5 * 60_000
"""The validity of a challenge."""

NO_ROLE: Final = ""
"""The log does not prove the role of the person who answered, so demands on roles are not verified later."""

_OF_CONTENT: Final = ("patterns", "scope", "input_digest", "message_digest")
"""The claims that can be recomputed only with the request's content."""

Known = Mapping[str, Passkey]


def why_signature_fails(proof: Proof, known: Known) -> str | None:
    """Return the reason why a proof is not a signature of these passkeys over its claims; None where it is."""
    passkey = known.get(proof.assertion.credential_id)
    if passkey is None:
        return "it was signed with an unknown passkey"
    if (passkey.public_key, passkey.rp_id) != (proof.public_key, proof.rp_id):
        return "its public key differs from the registered one"
    if passkey.person != proof.claims.person:
        return f"the passkey is that of `{passkey.person}`, not of `{proof.claims.person}`"
    if passkey.removed_ms is not None and proof.claims.until_ms - CHALLENGE_MS > passkey.removed_ms:
        return "the passkey was removed before"
    try:
        check_proof(proof)
    except PasskeyRefusedError as error:
        return error.text
    return None


def why_enrolment_unproven(proof: Proof, named: EnrolmentClaims, known: Known) -> str | None:
    """Return the reason why a proof is not these passkeys' consent to a change of passkeys; None where it is.

    Consents of older versions name no key that they register.
    """
    claims = proof.claims
    wanted = replace(named, nonce=claims.nonce, until_ms=claims.until_ms)
    older = replace(wanted, credential_id=None, key_digest=msgspec.UNSET) if named.action == "register" else wanted
    if claims not in (wanted, older):
        return "the signed statement is not this change of passkeys"
    return why_signature_fails(proof, known)


def why_unproven(state: SessionState, settled: Settled, known: Known, *, now: bool = False) -> str | None:
    """Return the reason why an outcome lacks a claimed or demanded signature; None where it lacks none.

    `state` is the session right before the answer; with `now` it is a later one, whose rules may differ.
    """
    for agreement in settled.request.agreed if settled.outcome == "allowed" else ():
        why = why_agreement_unproven(state, settled.request, agreement, known, now=True)
        if why is not None:
            return f"of the yes of `{agreement.by.name}`: {why}"
    if settled.proof is not None:
        return _why_answer_fails(state, settled, settled.proof, known, now=now)
    if not _is_demanded(settled):
        return None
    if not settled.proofs:
        return "a passkey is required and the answer is not signed"
    return next((why for proof in settled.proofs if (why := _why_grant_fails(proof, known)) is not None), None)


def why_agreement_unproven(
    state: SessionState, request: Request, agreement: Agreement, known: Known, *, now: bool = False
) -> str | None:
    """Return the reason why a yes to a request for several approvers lacks a claimed or demanded signature."""
    if agreement.proof is None:
        demanded = asks_passkey(request.demands, "once", NO_ROLE)
        return "a passkey is required and the answer is not signed" if demanded else None
    given = GivenReply(reply="once", message=agreement.message)
    why = _why_claims_fail(state, request, given, agreement.proof, known, who=agreement.by.name, now=now)
    if why is not None:
        return why
    return "the challenge had expired" if agreement.at_ms > agreement.proof.claims.until_ms else None


def _is_demanded(settled: Settled) -> bool:
    """Return whether an outcome without a signature of its own needs one, or those of its grants."""
    request, demands = settled.request, settled.request.demands
    if settled.reply is None:
        by_rules = not request.grants and request.evaluation is not None and request.evaluation.verdict is Verdict.ALLOW
        return settled.outcome == "allowed" and not by_rules and asks_signed_grants(demands, NO_ROLE)
    if settled.cause is not None and settled.reply != "reject":
        return settled.outcome == "allowed" and asks_signed_grants(demands, NO_ROLE)
    return asks_passkey(demands, settled.reply, NO_ROLE)


def _why_answer_fails(state: SessionState, settled: Settled, proof: Proof, known: Known, *, now: bool) -> str | None:
    claims = proof.claims
    if not isinstance(claims, AnswerClaims) or settled.reply is None:
        return "the signed statement is not an answer"
    given = GivenReply(
        reply=settled.reply,
        message=settled.message,
        updated_input=settled.updated_input,
        bounds=settled.bounds,
        patterns=settled.edited_patterns,
    )
    why = _why_claims_fail(state, settled.request, given, proof, known, who=settled.by.name, now=now)
    if why is not None:
        return why
    if settled.at_ms > claims.until_ms:
        return "the challenge had expired"
    if (settled.outcome in ("rejected", "corrected")) != (settled.reply == "reject"):
        return f"`{settled.reply}` was signed, and the outcome is {settled.outcome}"
    salt = settled.request.salt
    beyond = [one for one in settled.granted_patterns if pattern_digest(one, salt) not in claims.patterns]
    if beyond:
        return f"it grants `{beyond[0]}`, which was not signed"
    return None


def _why_claims_fail(
    state: SessionState, request: Request, given: GivenReply, proof: Proof, known: Known, *, who: str, now: bool
) -> str | None:
    """Return the reason why a proof is not this person's signature of this answer; None where it is."""
    claims = proof.claims
    if not isinstance(claims, AnswerClaims):
        return "the signed statement is not an answer"
    wanted = answer_claims(state, request, given, person=who, nonce=claims.nonce, until_ms=claims.until_ms)
    if now:
        wanted = replace(wanted, policy_digest=claims.policy_digest, scope=claims.scope)
    if request.redacted:
        # Without the content only what is signed beside it can be checked.
        wanted = replace(wanted, **{name: getattr(claims, name) for name in _OF_CONTENT})
    if claims != wanted:
        names = [one for one in AnswerClaims.__struct_fields__ if getattr(claims, one) != getattr(wanted, one)]
        return f"the signed statement differs in {', '.join(f'`{name}`' for name in names)}"
    return why_signature_fails(proof, known)


def _why_grant_fails(proof: Proof, known: Known) -> str | None:
    claims = proof.claims
    if not isinstance(claims, AnswerClaims) or not claims.patterns:
        return "the grant that it relies on was not signed"
    return why_signature_fails(proof, known)


def why_grant_unproven(
    proof: Proof,
    *,
    detail: GrantedDetail | None,
    scope: str,
    session: str | None,
    request_id: str | None,
    bounds: GrantBounds,
    known: Known,
) -> str | None:
    """Return the reason why a grant is not the one that a passkey signed; None where it is.

    `detail` None was redacted: its pattern is not checked.
    """
    claims = proof.claims
    if not isinstance(claims, AnswerClaims) or claims.reply not in ("session", "always"):
        return "the signed statement makes no grant"
    if (claims.session, claims.request_id, claims.scope) != (session, request_id, scope):
        return "the signed statement answers another request, or has another scope"
    if detail is not None and pattern_digest(detail.pattern, detail.salt) not in claims.patterns:
        return f"`{detail.pattern}` was not signed"
    if _is_looser(bounds, claims):
        return "its bounds are not those that were signed"
    return why_signature_fails(proof, known)


def _is_looser(bounds: GrantBounds, claims: AnswerClaims) -> bool:
    """Return whether a grant allows more calls, or for longer, than was signed; one that was written late lasts less."""
    signed_uses = None if claims.grant_uses is msgspec.UNSET else claims.grant_uses
    signed_ms = claims.grant_expires_in_ms
    lasts_longer = signed_ms is not None and (bounds.expires_in_ms is None or bounds.expires_in_ms > signed_ms)
    return bounds.uses != signed_uses or lasts_longer
