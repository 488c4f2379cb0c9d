"""The claims that a passkey signs for an answer, from the session's current state. Pure."""

from __future__ import annotations

from typing import Any

from ledger.core.errors import PasskeyRefusedError
from ledger.core.policy import ReplyKind
from ledger.core.proofs import AnswerClaims
from ledger.core.signed import pattern_digests, text_digest
from ledger.session.commands import Reply
from ledger.session.state import Request, SessionState, input_digest
from ledger.session.wanted import wanted_grants


def require_same_claims(state: SessionState, request: Request, command: Reply) -> None:
    """Raise PasskeyRefusedError where the signed claims are not those of this answer."""
    proof = command.proof
    if proof is None:
        return
    claims = proof.claims
    if isinstance(claims, AnswerClaims):
        wanted = answer_claims(
            state,
            request,
            command.reply,
            person=command.actor.name,
            message=command.message,
            updated_input=command.updated_input,
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
    state: SessionState,
    request: Request,
    reply: ReplyKind,
    *,
    person: str,
    message: str | None,
    updated_input: Any,
    nonce: str,
    until_ms: int,
) -> AnswerClaims:
    """Return the claims of an answer, from the session's current state."""
    patterns, scope = wanted_grants(state, request, reply)
    return AnswerClaims(
        person=person,
        session=state.session_id,
        request_id=request.request_id,
        digest=request.digest,
        reply=reply,
        patterns=pattern_digests(patterns),
        scope=scope,
        policy_digest=state.policy_digest,
        input_digest=None if updated_input is None else input_digest(updated_input),
        message_digest=text_digest(message) if message else None,
        nonce=nonce,
        until_ms=until_ms,
    )
