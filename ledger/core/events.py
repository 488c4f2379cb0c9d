"""The events: one frozen Struct for each type, and one tagged union of all.

Free text of people or agents (patterns, metadata, input, feedback, texts of rules) is in the member `detail`, the last
one of its type. The log holds it in a field of its own (`ledger.core.codec`), so that it can be redacted; the members
that the fold needs are outside. Types and fields only grow: a new field has a default, a field never changes its type,
a tag is never reused. Durations are milliseconds; an event has no time member, its time is the millisecond of its
entry's id.

Request and grant shapes follow `opencode.md` "Core Data Structures", `brutus.md` "Core Types"; presence, input lock
and deadlines follow `betcode.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from ledger.core.access_events import (
    Frozen,
    HoldLifted,
    HoldPlaced,
    LinkKeyReplaced,
    NotificationsChosen,
    PasskeyRegistered,
    PasskeyRemoved,
    PasskeyUsed,
    PushEnded,
    PushSubscribed,
    PushUsed,
    ServicesNamed,
    TokenCreated,
    TokenRedeemed,
    TokenRevoked,
    Unfrozen,
)
from ledger.core.errors import AgentAction
from ledger.core.event_shapes import (
    Agreed,
    Detail,
    DurationMs,
    Notification,
    Presence,
    Proof,
    ReasonDetail,
    ToolRef,
    TraceContext,
    Value,
)
from ledger.core.limits import GRANT_USES_COUNT, LEAST_GAIN_MS
from ledger.core.operands import Operand
from ledger.core.policy import Demand, Evaluation, Offer, PolicySource, ReplyKind, RuleRef, Verdict

Outcome = Literal["allowed", "denied", "rejected", "corrected", "expired", "cancelled"]
Scope = Literal["session", "project"]
UsesCount = Annotated[int, msgspec.Meta(ge=1, le=GRANT_USES_COUNT)]
"""The limit on the uses of a grant."""

Tier = Literal["attended", "unattended"]
CancelCause = Literal["asker_gave_up", "asker_died", "withdrawn", "session_closed", "token_revoked"]
CascadeReject = Literal["session", "siblings", "none"]
CascadeAlways = Literal["session", "project"]
Answering = Literal["anyone", "lock-holder"]
WhenAbandoned = Literal["move", "expire"]
Extending = Literal["automatic", "by-hand", "never"]
ExtendReason = Literal["typing", "open_card", "by_hand"]
"""The act of a person that extended an attended request; the first two extend it by themselves."""

LateDenies = Literal["obey", "ignore"]
EndCause = Literal["session_closed", "agent_ended", "claim_timeout"]
"""The cause by which a claim ended although no end of its run was recorded."""

ReopenCause = Literal["grants", "rules", "edit", "age", "imported", "operand", "link", "frozen"]
"""The change between an allow and the run of its call."""
WhenFrozen = Literal["wait", "deny"]

TOLD: Final = "told"
"""The channel of an answer that was given elsewhere and is only reported by the agent's side."""


class Actor(Value, frozen=True):
    """The author of an event: an agent, a person, a `local` command, or a worker of the ledger.

    A gateway sets every member itself: `name` and `token_id` are those of the access token, and `via` is the channel of
    the request. `told` in `via` marks an act of a person that only the agent's side reports. `made_by` is the person who
    made the token under the name of another, and who may hold it: where several people are asked, it counts as theirs.
    """

    kind: str
    name: str
    via: str | None = None
    token_id: str | None = None
    made_by: str | None = None

    @property
    def person(self) -> str:
        """Return the name of the person as whom this actor counts where several are asked."""
        return self.made_by or self.name

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the people who may be behind this actor."""
        return (self.name,) if self.made_by is None else (self.name, self.made_by)


class Settings(Value, kw_only=True, frozen=True):
    """A session's settings of deadlines and cascades. Durations in ms; None means never.

    `when_abandoned`: the fate of an attended request at its deadline if no client is connected any more.
    `extending`: whether people extend an attended request while they think: by typing or an open card (`automatic`) and
    by hand, by hand alone, or not at all.
    `least_gain_ms`: the least time that a connecting client must give an unattended request for its connection to be
    recorded where anyone may answer.
    `late_denies`: the effect of a deny that is newer than the request on a yes. `approval_lifetime_ms`: the time for
    which a person's answer lets the call begin. `claim_timeout_ms`: the time after which a claim without a recorded end
    is ended. `when_frozen`: the fate of a request that comes during a freeze.
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
    approval_lifetime_ms: DurationMs | None = None
    claim_timeout_ms: DurationMs = 3_600_000
    when_frozen: WhenFrozen = "wait"
    least_gain_ms: DurationMs = LEAST_GAIN_MS
    extending: Extending = "automatic"


class Opinion(Value, frozen=True):
    """The result of one decider after the rules; `verdict` None is no opinion, `failed` the reason of a failure."""

    decider: str
    verdict: Verdict | None = None
    reason: str | None = None
    failed: str | None = None


class Cause(Value, frozen=True):
    """The cause of a derived event: the reply to `request_id` cascaded, `grant_id` now allows it, or a freeze ended."""

    kind: Literal["cascade", "grant", "unfrozen"]
    request_id: str | None = None
    grant_id: str | None = None


class GrantBounds(Value, frozen=True):
    """The bounds of grants: a duration after which they end (ms), and a number of uses; None is unbounded."""

    expires_in_ms: DurationMs | None = None
    uses: UsesCount | None = None


class RulesDetail(Detail, kw_only=True, frozen=True):
    policy: PolicySource


class RulesStored(Value, tag="rules_stored", kw_only=True, frozen=True):
    """Rules were stored, in the stream that their digest names; sessions name the digest."""

    dialect: str = "opencode"
    detail: RulesDetail | None = None


class PolicyDetail(Detail, frozen=True):
    """The place where the agent's calls run: `cwd` and `home` of that machine; None means unknown."""

    cwd: str | None = None
    home: str | None = None


class SessionOpened(Value, tag="session_opened", kw_only=True, frozen=True):
    """A session was opened. `policy_digest` names the stream of the rules, `policy_source` their origin.

    `edition` is that of the dialect where the rules choose one. `token_id` is the access token that opened it over a gateway, and owns the session.
    """

    project: str | None = None
    agent: str | None = None
    parent: str | None = None
    dialect: str = "opencode"
    edition: str | None = None
    policy_digest: str
    policy_source: str | None = None
    settings: Settings = Settings()
    token_id: str | None = None
    detail: PolicyDetail | None = None


class PolicyChanged(Value, tag="policy_changed", kw_only=True, frozen=True):
    """Rules or settings changed for later requests; pending ones keep their evaluation."""

    dialect: str = "opencode"
    edition: str | None = None
    policy_digest: str
    policy_source: str | None = None
    settings: Settings = Settings()
    detail: PolicyDetail | None = None


class AskedDetail(Detail, kw_only=True, frozen=True):
    """The content of a request. `cwd` is the folder that the call would run in; None where unknown.

    `home` is the home directory by which it was judged; None where unknown.
    `not_honoured` are suggestions of the dialect, or entries of `always`, that would lift no part of this call.
    `still_asked` is the reason why the next such call is asked about although all of `always` was granted. `offers` are
    choices of what to remember, the narrowest first. `operands` are the files that the call executes or reads as a
    program; None if nobody looked for them. `trace` is the trace context of the asker; None where it has none. `rules`
    stand for the evaluation in a brief payload, where it says no more.
    """

    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    input: Any = None
    cwd: str | None = None
    evaluation: Evaluation | None = None
    opinions: tuple[Opinion, ...] = ()
    not_honoured: tuple[str, ...] = ()
    still_asked: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    home: str | None = None
    operands: tuple[Operand, ...] | None = None
    trace: TraceContext | None = None
    rules: tuple[RuleRef, ...] = ()


class Asked(Value, tag="asked", kw_only=True, frozen=True):
    """A request and its verdict. Only verdict `ask` makes it pending, with a tier and a duration from this event on.

    `digest` is the SHA-256 of the request's content (see `ledger.core.requests`), keyed with the salt of `detail`;
    `grants` are the grants that lifted it; `project_version` is the version of the project's stream by which it was
    judged. `token_id` is the asker's access token over a gateway: the request ends with it. `owner` is the person for
    whom the asker works, by that token; `demands` are conditions on the answer. `proofs` are those of the grants that
    allowed a call whose answer a passkey must sign. `uses` are the grants with a limit of uses of which the call took
    one. `waits_ms` is the time for which the asker says that it waits; None if it said nothing. `brief` is true in
    payloads alone (`ledger.session.brief`).
    """

    request_id: str
    permission: str
    verdict: Verdict
    digest: str
    policy_digest: str = ""
    tier: Tier | None = None
    duration_ms: DurationMs | None = None
    unattended_ms: DurationMs | None = None
    cap_ms: DurationMs | None = None
    present: tuple[Presence, ...] = ()
    project_version: int | None = None
    grants: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    rests_on_project: bool = False
    tool: ToolRef | None = None
    tool_name: str | None = None
    agent: str | None = None
    parent: str | None = None
    token_id: str | None = None
    owner: str | None = None
    demands: tuple[Demand, ...] = ()
    proofs: tuple[Proof, ...] = ()
    waits_ms: DurationMs | None = None
    brief: bool = False
    detail: AskedDetail | None = None


class ReopenedDetail(Detail, frozen=True):
    """`metadata` and `input` are those of the ask, for display of the request that is pending again.

    `reason` says to people what changed. `operands` are those of the moment; None if they are unchanged.
    """

    evaluation: Evaluation
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    input: Any = None
    reason: str | None = None
    operands: tuple[Operand, ...] | None = None


class Reopened(Value, tag="reopened", kw_only=True, frozen=True):
    """An allow did not hold when it was told or claimed: the request is pending again, or denied.

    `round` is the request's round from this event on, one more if it is pending again. `cause` is what changed; None
    means the project's grants.
    """

    request_id: str
    verdict: Verdict
    tier: Tier | None = None
    duration_ms: DurationMs | None = None
    unattended_ms: DurationMs | None = None
    cap_ms: DurationMs | None = None
    project_version: int | None = None
    present: tuple[Presence, ...] = ()
    round: int = 1
    cause: ReopenCause | None = None
    detail: ReopenedDetail | None = None


class Claimed(Value, tag="claimed", kw_only=True, frozen=True):
    """A runner took the right to run an allowed call, once; everything was judged again for it.

    `claim_id` is that of `ledger.core.questions`, and `runner` the runner's name. `round` is the request's round,
    `policy_digest` that of the rules of that moment, and `input_digest` the SHA-256 of the input that may run, keyed
    with the request's salt (None for a call without one). `project_version` is the version of the project's stream where
    one of its grants lets the call run. `uses` are the grants of which the claim took a use. `brief` is true in payloads
    alone (`ledger.session.brief`).
    """

    request_id: str
    claim_id: str
    runner: str
    round: int = 1
    policy_digest: str = ""
    input_digest: str | None = None
    project_version: int | None = None
    uses: tuple[str, ...] = ()
    brief: bool = False


class RepliedDetail(Detail, frozen=True):
    """`input` is the input as changed by a person, with which the call may run instead of the asked one.

    `evaluation` is by the rules of that moment: of the changed input, or with outcome `denied` of the request. `edited`
    are a person's own patterns in place of the offered ones.
    """

    message: str | None = None
    patterns: tuple[str, ...] = ()
    input: Any = None
    evaluation: Evaluation | None = None
    edited: tuple[str, ...] | None = None


class Replied(Value, tag="replied", kw_only=True, frozen=True):
    """The one effective answer. `grants` are the ids of the grants it makes, in the order of `detail.patterns`.

    Outcome `denied`: the answer was a yes, but the rules of that moment deny the call; the grants are made all the
    same. `override` marks an administrator's local reply where only the holder of the input lock may answer. A released
    request `rests_on_project` when a grant of the project as of `project_version` lifted it; `detail.evaluation` was made
    as of that version, too. `told` is the prompt at which a person answered, as the agent's side reports it; None is an
    answer that the ledger itself received. `proof` is that of a passkey's signature; `proofs` are those of the grants
    that released a request whose answer must be signed. `bounds` are those of the grants it makes, and `wider` the ids of
    those that allow more than was offered. `uses` are the grants with a limit of uses of which a released request took
    one. `approvers` are the people whose yes allowed a call that needs several, the author of this event last.
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
    bounds: GrantBounds | None = None
    wider: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    detail: RepliedDetail | None = None

    @property
    def is_own(self) -> bool:
        """Return whether a person gave this answer to the ledger itself: it follows from no other, nor is it reported."""
        return self.cause is None and self.told is None


class GrantedDetail(Detail, frozen=True):
    pattern: str
    reason: str | None = None


class Granted(Value, tag="granted", kw_only=True, frozen=True):
    """A grant for one pattern, by the answer to a request or by an administrator.

    `proof` is that of the answer that made it, where a passkey signed it. It lifts at most `uses` calls; None is
    unbounded. `wider`: a person's own pattern, which allows more than was offered.
    """

    grant_id: str
    permission: str
    scope: Scope
    expires_in_ms: DurationMs | None = None
    session: str | None = None
    request_id: str | None = None
    proof: Proof | None = None
    uses: UsesCount | None = None
    wider: bool = False
    detail: GrantedDetail | None = None


class UseTaken(Value, tag="use_taken", kw_only=True, frozen=True):
    """A call took one use of a project's grant, before it was allowed; the use counts even if the call never runs.

    `claim_id` is the claim under which it was taken; empty where an ask or a release took it.
    """

    grant_id: str
    session: str
    request_id: str
    claim_id: str = ""


class Revoked(Value, tag="revoked", kw_only=True, frozen=True):
    grant_id: str
    detail: ReasonDetail | None = None


class ClaimReleased(Value, tag="claim_released", kw_only=True, frozen=True):
    """A claim was given back without a recorded run: the call may be claimed again."""

    request_id: str
    claim_id: str
    detail: ReasonDetail | None = None


class EndUnknown(Value, tag="end_unknown", kw_only=True, frozen=True):
    """A claim ended without a recorded end of its run. The call may have run, and may not run again."""

    request_id: str
    claim_id: str
    cause: EndCause


class DeadlineMoved(Value, tag="deadline_moved", kw_only=True, frozen=True):
    """An attended request got another deadline, `duration_ms` after this event.

    Without a `reason` it had no connected clients and moved, once, to the unattended tier; `present` is as in `Expired`:
    empty, or None where the presence was unknown. With one, a person extended it, and it stays attended.
    """

    request_id: str
    tier: Tier
    duration_ms: DurationMs | None = None
    present: tuple[Presence, ...] | None = None
    reason: ExtendReason | None = None


class Expired(Value, tag="expired", kw_only=True, frozen=True):
    """A request reached its deadline. `duration_ms` is the configured time, for the agent's message.

    `present` are the clients that were connected then, at most `PRESENT_COUNT` of them; None where that was
    unknown.
    """

    request_id: str
    tier: Tier
    duration_ms: DurationMs
    present: tuple[Presence, ...] | None = None


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


class ToolFinishedDetail(Detail, frozen=True):
    input: Any = None
    title: str | None = None
    output: str | None = None


class ToolFinished(Value, tag="tool_finished", kw_only=True, frozen=True):
    """A tool call has run after its request was allowed; `as_asked`: it ran as asked.

    `key` makes the record idempotent: a repeated key makes no event. `claim_id` is the claim under which it ran. `digest`
    is that of the call as it ran, keyed with the salt of `detail`.
    """

    request_id: str | None = None
    call_id: str | None = None
    ok: bool = True
    as_asked: bool | None = None
    digest: str | None = None
    key: str | None = None
    claim_id: str | None = None
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


class Redacted(Value, tag="redacted", kw_only=True, frozen=True):
    """The content of the entries `versions` was taken out of this stream. Their payloads stay."""

    versions: tuple[Annotated[int, msgspec.Meta(ge=1)], ...]
    detail: ReasonDetail | None = None


class SessionClosed(Value, tag="session_closed", kw_only=True, frozen=True):
    detail: ReasonDetail | None = None


Event = (
    SessionOpened | PolicyChanged | RulesStored | Asked | Reopened | Claimed | ClaimReleased | EndUnknown | Agreed |
    Replied | Granted | UseTaken | Revoked | DeadlineMoved | Expired | Cancelled | ClientConnected |
    ClientDisconnected | LockTaken | LockRequested | LockPassed | Notification | ToolFinished | LogRegressed |
    Imported | Redacted | SessionClosed | TokenCreated | TokenRedeemed | TokenRevoked | LinkKeyReplaced | Frozen |
    Unfrozen | HoldPlaced | HoldLifted | PasskeyRegistered | PasskeyRemoved | PasskeyUsed | PushSubscribed |
    PushUsed | PushEnded | NotificationsChosen | ServicesNamed
)  # fmt: skip


def event_type(event: Event) -> str:
    """Return the tag under which an event is stored, for example `session_opened`."""
    return str(event.__struct_config__.tag)
