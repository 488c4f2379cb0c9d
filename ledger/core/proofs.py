"""Proofs of an answer: what a passkey signed, and everything that is needed to check it again. Values alone.

The challenge that the authenticator signs is made of the claims (`ledger.core.signed`), so a signature is good for
these claims and for nothing else. Nothing here is free text: patterns and messages are named by their SHA-256.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class AnswerClaims(msgspec.Struct, tag="answer", frozen=True, kw_only=True, gc=False):
    """An answer that a person consented to.

    `digest` is the request's, `patterns` the SHA-256 of each pattern that the answer grants, in order; `scope` and
    `grant_expires_in_ms` bound the grants. `policy_digest` names the rules of that moment. `input_digest` and
    `message_digest` are of the changed input and the feedback, None without. The challenge is void after `until_ms`
    (server ms).
    """

    person: str
    session: str
    request_id: str
    digest: str
    reply: Literal["once", "session", "always", "reject"]
    patterns: tuple[str, ...] = ()
    scope: Literal["session", "project"] | None = None
    grant_expires_in_ms: int | None = None
    policy_digest: str
    input_digest: str | None = None
    message_digest: str | None = None
    nonce: str
    until_ms: int


class EnrolmentClaims(msgspec.Struct, tag="enrolment", frozen=True, kw_only=True, gc=False):
    """A change of a person's passkeys: another one is registered, or `credential_id` is removed."""

    person: str
    action: Literal["register", "remove"]
    credential_id: str | None = None
    nonce: str
    until_ms: int


Claims = AnswerClaims | EnrolmentClaims


class Assertion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an authenticator returned for a challenge (WebAuthn level 2, 5.2.2); all members are base64url."""

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
    """A signed challenge as it comes back: the nonce it was issued with, and where a browser signed it."""

    assertion: Assertion
    nonce: str
    until_ms: int
    rp_id: str
    origin: str
