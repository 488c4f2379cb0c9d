"""The grants of a yes, and the claims and the challenge that a passkey signs for an answer. Pure.

A challenge is the SHA-256 of `permission-ledger passkey v1 LF` and the canonical JSON of the claims, so it can be
recomputed from the event, and a signature over it is valid only for these claims.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ledger.core.codec import canonical_json
from ledger.core.commitments import keyed
from ledger.core.errors import PasskeyRefusedError
from ledger.core.event_shapes import AnswerClaims, Claims
from ledger.core.events import GrantBounds, Scope
from ledger.core.policy import ReplyKind
from ledger.policy.dialects import dialect_of
from ledger.session.commands import GivenReply, Reply
from ledger.session.decision import shown_digest
from ledger.session.state import Request, SessionState, input_digest


class WantedGrants(NamedTuple):
    """The grants to make; `scope` is where they are recorded, None where the answer makes none."""

    patterns: tuple[str, ...] = ()
    scope: Scope | None = None


_NO_GRANTS: Final[WantedGrants] = WantedGrants()


def wanted_grants(
    state: SessionState, request: Request, reply: ReplyKind, edited: tuple[str, ...] | None = None
) -> WantedGrants:
    """Return the patterns that an answer would grant, including those already granted; `edited` replace the offered."""
    wanted = request.always if edited is None else edited
    patterns = tuple(dict.fromkeys(wanted)) if reply in ("session", "always") else ()
    if not patterns:
        return _NO_GRANTS
    scope = always_scope(state) if reply == "always" else "session"
    return WantedGrants(patterns, "project" if scope == "project" and state.project is not None else "session")


def always_scope(state: SessionState) -> Scope:
    """Return the scope of an `always` by the dialect of the session's rules."""
    return dialect_of(state.language).answers.always_scope


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


def require_same_claims(state: SessionState, request: Request, command: Reply) -> None:
    """Raise PasskeyRefusedError where the signed claims are not those of this answer."""
    proof = command.given.proof
    if proof is None:
        return
    claims = proof.claims
    if isinstance(claims, AnswerClaims):
        wanted = answer_claims(
            state, request, command.given, person=command.actor.name, nonce=claims.nonce, until_ms=claims.until_ms
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
