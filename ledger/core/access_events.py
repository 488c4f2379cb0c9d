"""The events of the access streams: tokens, links, freezes, holds, passkeys, notifications. See `ledger.core.events`."""

from __future__ import annotations

from typing import Literal

from ledger.core.event_shapes import Detail, DurationMs, Proof, ReasonDetail, Value

Role = Literal["agent", "approver", "auditor", "admin"]
TokenUse = Literal["bearer", "browser", "sign_in"]


class TokenCreated(Value, tag="token_created", kw_only=True, frozen=True):
    """An access token for the gateway was created. `digest` is the SHA-256 of the secret, which is stored nowhere.

    Empty `projects` and `sessions` do not restrict. A `sign_in` token is redeemed for one browser token; `made_from` is
    the token that a browser token was made from, and with which it ends. `brings_rules`: an agent's own rules count.
    `proof_digest` is the SHA-256 of a second secret, which a browser token's page sends beside its cookie.

    An agent's token reaches the sessions that were opened with it, and one project: the one it names, else the first in
    which it opens a session. A second event of the same id records that project in `claims`. `any_project` lifts the
    second bound, `everything` both. `owner` is the person for whom an agent works; None is the token's creator.
    `folders` are those in which its sessions work.
    """

    token_id: str
    name: str
    role: Role
    digest: str
    use: TokenUse = "bearer"
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    brings_rules: bool = False
    expires_in_ms: DurationMs | None = None
    made_from: str | None = None
    proof_digest: str | None = None
    owner: str | None = None
    everything: bool = False
    any_project: bool = False
    folders: tuple[str, ...] = ()
    claims: str | None = None


class TokenRedeemed(Value, tag="token_redeemed", kw_only=True, frozen=True):
    """A sign-in token was redeemed, and is not valid any more."""

    token_id: str


class TokenRevoked(Value, tag="token_revoked", kw_only=True, frozen=True):
    token_id: str
    detail: ReasonDetail | None = None


class LinkKeyReplaced(Value, tag="link_key_replaced", kw_only=True, frozen=True):
    """The key of answer links was replaced: all issued links are invalid."""

    detail: ReasonDetail | None = None


class Frozen(Value, tag="frozen", kw_only=True, frozen=True):
    """Everything was frozen, or one project: no call is allowed or claimed there until it is unfrozen."""

    project: str | None = None
    detail: ReasonDetail | None = None


class Unfrozen(Value, tag="unfrozen", kw_only=True, frozen=True):
    """A freeze ended: that of the whole ledger, or of one project."""

    project: str | None = None
    detail: ReasonDetail | None = None


class HoldPlaced(Value, tag="hold_placed", kw_only=True, frozen=True):
    """A legal hold was placed on a project with its sessions, or on a session: nothing is redacted there."""

    project: str | None = None
    session: str | None = None
    detail: ReasonDetail | None = None


class HoldLifted(Value, tag="hold_lifted", kw_only=True, frozen=True):
    """A legal hold ended: that of a project, or of a session."""

    project: str | None = None
    session: str | None = None
    detail: ReasonDetail | None = None


class NameDetail(Detail, frozen=True):
    """`name` is the person's name for a passkey, or for a device."""

    name: str | None = None


class PasskeyRegistered(Value, tag="passkey_registered", kw_only=True, frozen=True):
    """A person registered a passkey: credential id and COSE public key (base64url), relying party, initial counter.

    `proof` is the consent of an earlier passkey of the person; None for the first one. `token_id` is the token that was
    used for the registration.
    """

    person: str
    credential_id: str
    public_key: str
    rp_id: str
    sign_count: int = 0
    token_id: str | None = None
    proof: Proof | None = None
    detail: NameDetail | None = None


class PasskeyRemoved(Value, tag="passkey_removed", kw_only=True, frozen=True):
    """A passkey was removed. `proof` is the consent of one of the person's; None if an administrator removed it."""

    credential_id: str
    proof: Proof | None = None
    detail: ReasonDetail | None = None


class PasskeyUsed(Value, tag="passkey_used", kw_only=True, frozen=True):
    """A challenge was used, and its nonce is invalid. `sign_count` is the authenticator's, 0 if it has none."""

    credential_id: str
    nonce: str
    until_ms: int
    sign_count: int = 0


class PushSubscribed(Value, tag="push_subscribed", kw_only=True, frozen=True):
    """A browser of a person receives push messages at `endpoint`, encrypted for its keys (base64url).

    `token_id` is the browser's sign-in, with which the subscription ends. The same `device_id` once more renews it.
    """

    device_id: str
    person: str
    endpoint: str
    p256dh: str
    auth: str
    token_id: str
    detail: NameDetail | None = None


class PushUsed(Value, tag="push_used", kw_only=True, frozen=True):
    """The push service accepted a message for a device; at most one such event a device and day is written."""

    device_id: str


class PushEnded(Value, tag="push_ended", kw_only=True, frozen=True):
    """A subscription ended: somebody `removed` it, or the push service does not know it any more (`gone`)."""

    device_id: str
    cause: Literal["removed", "gone"]
    detail: ReasonDetail | None = None


class QuietHours(Value, kw_only=True, frozen=True):
    """The daily time in which a person wants no messages, in minutes after midnight of a time zone.

    It begins on `days` (0 is Monday) and, where `until` is not after `begin`, ends on the next day. With `grave`,
    requests with grave dangers are sent nevertheless.
    """

    begin: int
    until: int
    zone: str
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    grave: bool = False


class NotificationsChosen(Value, tag="notifications_chosen", kw_only=True, frozen=True):
    """A person chose their quiet hours, and the services of the notifier that send them nothing (`muted`)."""

    person: str
    quiet: QuietHours | None = None
    muted: tuple[str, ...] = ()


class ServicesNamed(Value, tag="services_named", kw_only=True, frozen=True):
    """The services of each person in a notifier's configuration, by name; their addresses stand nowhere here."""

    services: dict[str, tuple[str, ...]]
