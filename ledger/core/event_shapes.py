"""Base shapes of events, the values that several of them have, and the events of an agreement and of a notification.

The challenge that an authenticator signs for a proof is derived from its claims (`ledger.session.signed_claims`), so a
signature is valid only for these claims. Proofs contain no free text: patterns and messages appear as SHA-256. A trace
context (W3C) comes from outside and is checked here; one that is not valid is ignored, and never fails an ask.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.core.limits import DURATION_MS_MAX

DurationMs = Annotated[int, msgspec.Meta(ge=0, le=DURATION_MS_MAX)]
"""A bounded duration, so that sums with it are valid times; an entry beyond the bound damages only its stream."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of every stored shape: immutable, and without defaults in the encoding.

    A value cannot be part of a reference cycle, so the garbage collector need not track it (`gc=False`): folds of many
    sessions hold millions of them.
    """


S = TypeVar("S", bound=msgspec.Struct)


def alike(cls: type[S], source: msgspec.Struct, **own: Any) -> S:
    """Return a struct with the members that `source` has under the same names; `own` are all others."""
    same = {name: getattr(source, name) for name in cls.__struct_fields__ if name in source.__struct_fields__}
    return cls(**{**same, **own})


class Detail(Value, kw_only=True, frozen=True):
    """Base of the content of an event: its free text, which the log holds in a field of its own.

    `salt` is random (16 bytes, in base64url). It makes the commitment to the content, and digests of it, unguessable.
    Empty in an event that is not written yet.
    """

    salt: str = ""


class ReasonDetail(Detail, frozen=True):
    reason: str | None = None


class ToolRef(Value, frozen=True):
    """The tool call a request belongs to (`opencode.md`, Request.tool)."""

    message_id: str
    call_id: str


class Presence(Value, frozen=True):
    """A person's connected device."""

    client_id: str
    name: str


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


class MessageDetail(Detail, frozen=True):
    message: str | None = None


class Agreed(Value, tag="agreed", kw_only=True, frozen=True):
    """A person's yes to a request that needs those of more people: it is still pending.

    The yes that completes the number is `Replied`. `digest` is that of the request as it was shown, and `round` its
    round: in another round the yes does not count. `needed` is the number of people that was demanded then. `role` is
    the person's, None if unknown; `proof` is that of a passkey's signature.
    """

    request_id: str
    digest: str
    round: int = 1
    needed: int = 2
    role: str | None = None
    client_id: str | None = None
    proof: Proof | None = None
    detail: MessageDetail | None = None


class NotificationDetail(Detail, frozen=True):
    text: str | None = None
    target: str | None = None


class Notification(Value, tag="notification", kw_only=True, frozen=True):
    """A notification of a person about a request was `sent` or `failed`, or its outcome was sent (`withdrawn`).

    `step` counts the reminders from 0; a failure without it concerns the message about the outcome. One message may be
    about several requests: their events have the same `message_id`.
    """

    request_id: str
    service: str
    result: Literal["sent", "failed", "withdrawn"]
    person: str | None = None
    step: int | None = None
    message_id: str | None = None
    detail: NotificationDetail | None = None


STATE_CHARS: Final = 512
"""The length of a `tracestate` that must be propagated; a longer one is left out."""

STATE_MEMBERS_COUNT: Final = 32

_PARENT_CHARS: Final = 55
_LATER_CHARS_MAX: Final = 256
"""The length of a `traceparent` of a later version, of which the beginning is read."""

_PARENT: Final = late_pattern(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_KEY: Final = r"[a-z0-9][a-z0-9_\-*/]{0,240}(?:@[a-z][a-z0-9_\-*/]{0,13})?"
_STATE_MEMBER: Final = late_pattern(
    rf"{_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]", re.ASCII
)


class TraceContext(Value, frozen=True):
    """A valid context. `parent` is a `traceparent` of version 00, `state` the `tracestate` that came with it."""

    parent: str
    state: str = ""


def read_trace_context(parent: object, state: object = None) -> TraceContext | None:
    """Return the context of two header values; None for a `traceparent` that is absent or not valid.

    A `tracestate` that is not valid, or too long, is left out.
    """
    if not isinstance(parent, str) or len(parent) > _LATER_CHARS_MAX:
        return None
    parent = parent.strip(" \t")
    found = _PARENT.match(parent)
    if found is None:
        return None
    version, trace_id, span_id, flags = found.groups()
    is_longer = len(parent) > _PARENT_CHARS
    if version == "ff" or (is_longer and (version == "00" or parent[_PARENT_CHARS] != "-")):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(f"00-{trace_id}-{span_id}-{flags}", _state(state))


def _state(state: object) -> str:
    if not isinstance(state, str) or len(state) > STATE_CHARS:
        return ""
    members = [one.strip(" \t") for one in state.split(",")]
    members = [one for one in members if one]
    keys = {one.partition("=")[0] for one in members}
    is_valid = len(members) <= STATE_MEMBERS_COUNT and len(keys) == len(members)
    return ",".join(members) if is_valid and all(map(_STATE_MEMBER.fullmatch, members)) else ""
