"""The claims that a passkey signs for an answer, from the session's current state. Pure."""

from __future__ import annotations

from ledger.core.errors import PasskeyRefusedError
from ledger.core.proofs import AnswerClaims
from ledger.core.signed import pattern_digests, text_digest
from ledger.session.commands import GivenReply, Reply
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
    """Return the claims of an answer, from the session's current state."""
    patterns, scope = wanted_grants(state, request, given.reply)
    return AnswerClaims(
        person=person,
        session=state.session_id,
        request_id=request.request_id,
        digest=request.digest,
        reply=given.reply,
        patterns=pattern_digests(patterns),
        scope=scope,
        policy_digest=state.policy_digest,
        input_digest=None if given.updated_input is None else input_digest(given.updated_input),
        message_digest=text_digest(given.message) if given.message else None,
        nonce=nonce,
        until_ms=until_ms,
    )
