"""The claims that a passkey signs for an answer, from the session's current state. Pure."""

from __future__ import annotations

import msgspec

from ledger.core.commitments import keyed
from ledger.core.errors import PasskeyRefusedError
from ledger.core.events import GrantBounds
from ledger.core.proofs import AnswerClaims
from ledger.core.signed import pattern_digest, text_digest
from ledger.session.commands import GivenReply, Reply
from ledger.session.rounds import shown_digest
from ledger.session.state import Request, SessionState, input_digest
from ledger.session.wanted import wanted_grants


def require_same_claims(state: SessionState, request: Request, command: Reply) -> None:
    """Raise PasskeyRefusedError where the signed claims are not those of this answer."""
    proof = command.given.proof
    if proof is None:
        return
    claims = proof.claims
    if isinstance(claims, AnswerClaims):
        wanted = answer_claims(
            state,
            request,
            command.given,
            person=command.actor.name,
            nonce=claims.nonce,
            until_ms=claims.until_ms,
        )
        if claims == wanted:
            return
    raise PasskeyRefusedError(
        f"the passkey signed another answer, not this one to request `{request.request_id}`; reload and sign again",
        request_id=request.request_id,
        session=state.session_id,
    )


def answer_claims(
    state: SessionState, request: Request, given: GivenReply, *, person: str, nonce: str, until_ms: int
) -> AnswerClaims:
    """Return the claims of an answer, from the session's current state. Digests are keyed with the request's salt."""
    patterns, scope = wanted_grants(state, request, given.reply, given.patterns)
    bounds = given.bounds or GrantBounds()
    edited = given.updated_input
    return AnswerClaims(
        person=person,
        session=state.session_id,
        request_id=request.request_id,
        digest=shown_digest(request),
        reply=given.reply,
        patterns=tuple(pattern_digest(pattern, request.salt) for pattern in patterns),
        scope=scope,
        grant_expires_in_ms=bounds.expires_in_ms,
        grant_uses=msgspec.UNSET if bounds.uses is None else bounds.uses,
        policy_digest=state.policy_digest,
        input_digest=None if edited is None else keyed(input_digest(edited), request.salt),
        message_digest=keyed(text_digest(given.message), request.salt) if given.message else None,
        nonce=nonce,
        until_ms=until_ms,
    )
