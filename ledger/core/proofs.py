"""Proofs of answers: a passkey's signature, and all data needed to verify it again. Values only.

The challenge that the authenticator signs is derived from the claims (`ledger.core.signed`), so a signature is valid
only for these claims. Proofs contain no free text: patterns and messages appear as SHA-256.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class AnswerClaims(msgspec.Struct, tag="answer", frozen=True, kw_only=True, gc=False):
    """The claims of an answer to which a person consents.

    `digest` is the request's, `patterns` the SHA-256 of each pattern that the answer grants, in order; `scope` and
    `grant_expires_in_ms` and `grant_uses` bound the grants; the latter is no part of the signed claims where it is
    unset, as in older ones. `policy_digest` identifies the rules of that moment. `input_digest` and `message_digest`
    are of the changed input and the feedback, None without. The challenge expires at `until_ms` (server ms).
    """

    person: str
    session: str
    request_id: str
    digest: str
    reply: Literal["once", "session", "always", "reject"]
    patterns: tuple[str, ...] = ()
    scope: Literal["session", "project"] | None = None
    grant_expires_in_ms: int | None = None
    grant_uses: int | msgspec.UnsetType = msgspec.UNSET
    policy_digest: str
    input_digest: str | None = None
    message_digest: str | None = None
    nonce: str
    until_ms: int


class EnrolmentClaims(msgspec.Struct, tag="enrolment", frozen=True, kw_only=True, gc=False):
    """The claims of a change of a person's passkeys: `credential_id` is registered or removed.

    `key_digest` is the SHA-256 of the public key that is registered. Neither is there in the claims with which a new
    passkey is made, nor in consents of older versions.
    """

    person: str
    action: Literal["register", "remove"]
    credential_id: str | None = None
    key_digest: str | msgspec.UnsetType = msgspec.UNSET
    nonce: str
    until_ms: int


Claims = AnswerClaims | EnrolmentClaims


class Assertion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An authenticator's response to a challenge (WebAuthn level 2, 5.2.2); all members are base64url."""

    credential_id: str
    authenticator_data: str
    client_data: str
    signature: str


class Proof(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Claims, the assertion over them, and the passkey's public key (COSE, base64url), relying party and origin."""

    claims: Claims
    assertion: Assertion
    public_key: str
    rp_id: str
    origin: str


class Signed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A signed challenge from a browser: the nonce with which it was issued, and the origin."""

    assertion: Assertion
    nonce: str
    until_ms: int
    rp_id: str
    origin: str
