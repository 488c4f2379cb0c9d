"""The events: one frozen Struct for each type, and one tagged union of all.

Free text of people or agents (patterns, metadata, input, feedback, texts of rules) is in the member `detail`, so that
it can be redacted; the members that the fold needs are outside. Types and fields only grow: a new field has a default,
a field never changes its type, a tag is never reused. Durations are milliseconds; an event has no time member, its time
is the millisecond of its entry's id.

Request and grant shapes follow `opencode.md` "Core Data Structures", `brutus.md` "Core Types"; presence, input lock
and deadlines follow `betcode.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from ledger.core.errors import AgentAction
from ledger.core.limits import DURATION_MS_MAX
from ledger.core.policy import Demand, Evaluation, Offer, PolicySource, ReplyKind, Verdict
from ledger.core.proofs import Proof

Outcome = Literal["allowed", "denied", "rejected", "corrected", "expired", "cancelled"]
Scope = Literal["session", "project"]
DurationMs = Annotated[int, msgspec.Meta(ge=0, le=DURATION_MS_MAX)]
"""A bounded duration, so that sums with it are valid times; an entry beyond the bound damages only its stream."""

Role = Literal["agent", "approver", "auditor", "admin"]
TokenUse = Literal["bearer", "browser", "sign_in"]
Tier = Literal["attended", "unattended"]
CancelCause = Literal["asker_gave_up", "asker_died", "withdrawn", "session_closed", "token_revoked"]
CascadeReject = Literal["session", "siblings", "none"]
CascadeAlways = Literal["session", "project"]
Answering = Literal["anyone", "lock-holder"]
WhenAbandoned = Literal["move", "expire"]
LateDenies = Literal["obey", "ignore"]


TOLD: Final = "told"
"""The channel of an answer that was given elsewhere and is only reported by the agent's side."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of every stored shape: immutable, and without defaults in the encoding.

    A value cannot be part of a reference cycle, so the garbage collector need not track it (`gc=False`): folds of many
    sessions hold millions of them.
    """


class Actor(Value, frozen=True):
    """The author of an event: an agent, a person, a `local` command, or a worker of the ledger.

    A gateway sets every member itself: `name` and `token_id` are those of the access token, and `via` is the channel of
    the request. `told` in `via` marks an act of a person that only the agent's side reports.
    """

    kind: str
    name: str
    via: str | None = None
    token_id: str | None = None


class ToolRef(Value, frozen=True):
    """The tool call a request belongs to (`opencode.md`, Request.tool)."""

    message_id: str
    call_id: str


class Presence(Value, frozen=True):
    """A person's connected device."""

    client_id: str
    name: str


class Settings(Value, kw_only=True, frozen=True):
    """A session's settings of deadlines and cascades. Durations in ms; None means never.

    `when_abandoned`: the fate of an attended request at its deadline if no client is connected any more.
    `late_denies`: the effect of a deny that is newer than the request on a yes.
    """

    attended_ms: DurationMs | None = 60_000
    unattended_ms: DurationMs | None = 7 * 86_400_000
    cap_ms: DurationMs | None = 30 * 86_400_000
    cascade_reject: CascadeReject = "session"
    cascade_always: CascadeAlways = "session"
    answering: Answering = "anyone"
    on_denied: AgentAction = "continue"
    when_abandoned: WhenAbandoned = "move"
    late_denies: LateDenies = "obey"


class Opinion(Value, frozen=True):
    """The result of one decider after the rules; `verdict` None is no opinion, `failed` the reason of a failure."""

    decider: str
    verdict: Verdict | None = None
    reason: str | None = None
    failed: str | None = None


class Cause(Value, frozen=True):
    """The cause of a derived event: the reply to `request_id` cascaded, or `grant_id` now allows it."""

    kind: Literal["cascade", "grant"]
    request_id: str | None = None
    grant_id: str | None = None


class PolicyDetail(Value, frozen=True):
    """The rules. `cwd` and `home` are of the machine where the agent's calls run; None means unknown."""

    policy: PolicySource
    cwd: str | None = None
    home: str | None = None


class SessionOpened(Value, tag="session_opened", kw_only=True, frozen=True):
    """A session was opened. `policy_source` names the origin of the rules, which are in `detail`.

    `token_id` is the access token that opened it over a gateway, and owns the session.
    """

    project: str | None = None
    agent: str | None = None
    parent: str | None = None
    dialect: str = "opencode"
    policy_digest: str
    policy_source: str | None = None
    settings: Settings = Settings()
    detail: PolicyDetail | None = None
    token_id: str | None = None


class PolicyChanged(Value, tag="policy_changed", kw_only=True, frozen=True):
    """Rules or settings changed for later requests; pending ones keep their evaluation."""

    dialect: str = "opencode"
    policy_digest: str
    policy_source: str | None = None
    settings: Settings = Settings()
    detail: PolicyDetail | None = None


class AskedDetail(Value, kw_only=True, frozen=True):
    """The content of a request. `cwd` is the folder that the call would run in; None in older logs.

    `not_honoured` are suggestions of the dialect, or entries of `always`, that would lift no part of this call.
    `still_asked` is the reason why the next such call is asked about although all of `always` was granted. `offers` are
    choices of what to remember, the narrowest first.
    """

    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    input: Any = None
    cwd: str | None = None
    evaluation: Evaluation | None = None
    opinions: tuple[Opinion, ...] = ()
    not_honoured: tuple[str, ...] = ()
    still_asked: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()


class Asked(Value, tag="asked", kw_only=True, frozen=True):
    """A request and its verdict. Only verdict `ask` makes it pending, with a tier and a duration from this event on.

    `digest` is the SHA-256 of the request's content (see `ledger.core.requests`); `grants` are the grants that lifted
    it; `project_version` is the version of the project's stream by which it was judged. `token_id` is the asker's
    access token over a gateway: the request ends with it. `owner` is the person for whom the asker works, by that
    token; `demands` are conditions on the answer. `proofs` are those of the grants that allowed a call whose answer a
    passkey must sign.
    """

    request_id: str
    permission: str
    verdict: Verdict
    digest: str
    policy_digest: str
    tier: Tier | None = None
    duration_ms: DurationMs | None = None
    unattended_ms: DurationMs | None = None
    cap_ms: DurationMs | None = None
    present: tuple[Presence, ...] = ()
    project_version: int | None = None
    grants: tuple[str, ...] = ()
    rests_on_project: bool = False
    tool: ToolRef | None = None
    tool_name: str | None = None
    agent: str | None = None
    parent: str | None = None
    token_id: str | None = None
    detail: AskedDetail | None = None
    owner: str | None = None
    demands: tuple[Demand, ...] = ()
    proofs: tuple[Proof, ...] = ()


class ReopenedDetail(Value, frozen=True):
    """`metadata` and `input` are those of the ask, for display of the request that is pending again."""

    evaluation: Evaluation
    metadata: dict[str, Any] = {}
    input: Any = None


class Reopened(Value, tag="reopened", kw_only=True, frozen=True):
    """The project's grants changed before an allow was returned: the request is pending again, or denied."""

    request_id: str
    verdict: Verdict
    tier: Tier | None = None
    duration_ms: DurationMs | None = None
    unattended_ms: DurationMs | None = None
    cap_ms: DurationMs | None = None
    project_version: int | None = None
    present: tuple[Presence, ...] = ()
    detail: ReopenedDetail | None = None


class RepliedDetail(Value, frozen=True):
    """`input` is the input as changed by a person, with which the call may run instead of the asked one.

    `evaluation` is by the rules of that moment: of the changed input, or with outcome `denied` of the request.
    """

    message: str | None = None
    patterns: tuple[str, ...] = ()
    input: Any = None
    evaluation: Evaluation | None = None


class Replied(Value, tag="replied", kw_only=True, frozen=True):
    """The one effective answer. `grants` are the ids of the grants it makes, in the order of `detail.patterns`.

    Outcome `denied`: the answer was a yes, but the rules of that moment deny the call; the grants are made all the
    same. `override` marks an administrator's local reply where only the holder of the input lock may answer. A released
    request `rests_on_project` when a grant of the project as of `project_version` lifted it. `told` is the prompt at
    which a person answered, as the agent's side reports it; None is an answer that the ledger itself received.
    `proof` is that of a passkey's signature; `proofs` are those of the grants that released a request whose answer must
    be signed.
    """

    request_id: str
    reply: ReplyKind
    outcome: Literal["allowed", "denied", "rejected", "corrected"]
    cause: Cause | None = None
    scope: Scope | None = None
    grants: tuple[str, ...] = ()
    client_id: str | None = None
    override: bool = False
    rests_on_project: bool = False
    project_version: int | None = None
    told: str | None = None
    proof: Proof | None = None
    proofs: tuple[Proof, ...] = ()
    detail: RepliedDetail | None = None


class GrantedDetail(Value, frozen=True):
    pattern: str
    reason: str | None = None


class Granted(Value, tag="granted", kw_only=True, frozen=True):
    """A grant for one pattern, by the answer to a request or by an administrator.

    `proof` is that of the answer that made it, where a passkey signed it.
    """

    grant_id: str
    permission: str
    scope: Scope
    expires_in_ms: DurationMs | None = None
    session: str | None = None
    request_id: str | None = None
    proof: Proof | None = None
    detail: GrantedDetail | None = None


class ReasonDetail(Value, frozen=True):
    reason: str | None = None


class Revoked(Value, tag="revoked", kw_only=True, frozen=True):
    grant_id: str
    detail: ReasonDetail | None = None


class DeadlineMoved(Value, tag="deadline_moved", kw_only=True, frozen=True):
    """An attended request without connected clients moved, once, to the unattended tier."""

    request_id: str
    tier: Tier
    duration_ms: DurationMs | None = None


class Expired(Value, tag="expired", kw_only=True, frozen=True):
    """A request reached its deadline. `duration_ms` is the configured time, for the agent's message."""

    request_id: str
    tier: Tier
    duration_ms: DurationMs


class Cancelled(Value, tag="cancelled", kw_only=True, frozen=True):
    request_id: str
    cause: CancelCause
    detail: ReasonDetail | None = None


class ClientConnected(Value, tag="client_connected", kw_only=True, frozen=True):
    client_id: str
    name: str


class ClientDisconnected(Value, tag="client_disconnected", kw_only=True, frozen=True):
    """A client disconnected. Cause `lease`: its lease ended without a renewal."""

    client_id: str
    cause: Literal["left", "lease"]


class LockTaken(Value, tag="lock_taken", kw_only=True, frozen=True):
    client_id: str


class LockRequested(Value, tag="lock_requested", kw_only=True, frozen=True):
    """A client requested the input lock of another one; it passes after `duration_ms`."""

    client_id: str
    duration_ms: DurationMs


class LockPassed(Value, tag="lock_passed", kw_only=True, frozen=True):
    """The input lock passed; `to` is None when no client is left to hold it."""

    holder: str
    to: str | None
    cause: Literal["disconnect", "request", "given"]


class NotificationDetail(Value, frozen=True):
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


class ToolFinishedDetail(Value, frozen=True):
    input: Any = None
    title: str | None = None
    output: str | None = None


class ToolFinished(Value, tag="tool_finished", kw_only=True, frozen=True):
    """A tool call has run after its request was allowed; `as_asked`: it ran as asked.

    `key` makes the record idempotent: a repeated key makes no event.
    """

    request_id: str | None = None
    call_id: str | None = None
    ok: bool = True
    as_asked: bool | None = None
    digest: str | None = None
    key: str | None = None
    detail: ToolFinishedDetail | None = None


class LogRegressed(Value, tag="log_regressed", kw_only=True, frozen=True):
    """The server lost acknowledged entries (for example in a failover). Ids as `<ms>-<version>`."""

    seen_id: str
    found_id: str


class Imported(Value, tag="imported", kw_only=True, frozen=True):
    """The versions up to `versions` were imported from a file; `hash` is that of their head.

    `in_force_count` is the number of grants that took effect by the import.
    """

    versions: Annotated[int, msgspec.Meta(ge=1)]
    hash: str
    in_force_count: int = 0


class SessionClosed(Value, tag="session_closed", kw_only=True, frozen=True):
    detail: ReasonDetail | None = None


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


class PasskeyDetail(Value, frozen=True):
    """`name` is the person's name for the passkey."""

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
    detail: PasskeyDetail | None = None


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


Event = (
    SessionOpened
    | PolicyChanged
    | Asked
    | Reopened
    | Replied
    | Granted
    | Revoked
    | DeadlineMoved
    | Expired
    | Cancelled
    | ClientConnected
    | ClientDisconnected
    | LockTaken
    | LockRequested
    | LockPassed
    | Notification
    | ToolFinished
    | LogRegressed
    | Imported
    | SessionClosed
    | TokenCreated
    | TokenRedeemed
    | TokenRevoked
    | LinkKeyReplaced
    | PasskeyRegistered
    | PasskeyRemoved
    | PasskeyUsed
)


def event_type(event: Event) -> str:
    """Return the tag under which an event is stored, for example `session_opened`."""
    return str(event.__struct_config__.tag)
