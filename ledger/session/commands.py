"""The commands of a session. They are values: ids, rulesets, presence and project state are members of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from ledger.core.errors import LedgerError
from ledger.core.event_shapes import Proof, TraceContext
from ledger.core.events import Actor, CancelCause, EndCause, ExtendReason, GrantBounds, Opinion, Presence, Settings
from ledger.core.limits import PRESENT_COUNT
from ledger.core.operands import Operand
from ledger.core.policy import Policy, PolicySource, ReplyKind
from ledger.core.questions import Question, Runner
from ledger.masks.masking import Masks
from ledger.project import ProjectState


class Command(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all commands; `actor` becomes the author of their events."""

    actor: Actor


class Live(msgspec.Struct, frozen=True, gc=False):
    """Presence by leases: clients of this session, and open inboxes that reach it.

    `asked_for` are the recorded clients whose leases were read; None skips that check. A client that has connected
    since then must not be mistaken for one whose lease has ended. `is_known` False: the leases could not be read.
    `is_assumed`: they were not read either, and an append that rests on them is compared with them.
    """

    clients: tuple[Presence, ...] = ()
    inbox: tuple[Presence, ...] = ()
    asked_for: frozenset[str] | None = None
    is_known: bool = True
    is_assumed: bool = False

    def all(self) -> tuple[Presence, ...]:
        """Return every present client once, by id."""
        if not self.inbox and len(self.clients) < 2:
            return self.clients
        here = {one.client_id: one for one in self.clients}
        here.update((one.client_id, one) for one in self.inbox)
        return tuple(here[client_id] for client_id in sorted(here))

    def named(self) -> tuple[Presence, ...] | None:
        """Return the clients that an event names as present; None if that is unknown."""
        return self.all()[:PRESENT_COUNT] if self.is_known else None

    def covers(self, clients: Iterable[str]) -> bool:
        """Return whether the leases of all these clients were read."""
        return self.asked_for is None or self.asked_for.issuperset(clients)

    def __contains__(self, client_id: object) -> bool:
        return any(one.client_id == client_id for one in (*self.clients, *self.inbox))


class Open(Command, frozen=True, kw_only=True):
    """Open the session, or attach to it. None in `policy` or `settings` leaves them unchanged.

    The rules of `policy` must be in their stream before: the event holds no more than their digest.
    `token_id` is the access token that will own the session.
    """

    project: str | None = None
    agent: str | None = None
    parent: str | None = None
    cwd: str | None = None
    home: str | None = None
    policy: PolicySource | None = None
    policy_digest: str = ""
    policy_source: str | None = None
    settings: Settings | None = None
    token_id: str | None = None


class OutdatedRulesError(LedgerError):
    """An internal signal, never raised to a caller: the session's rules have changed since the command was made."""

    code = "OUTDATED_RULES"


class PresenceWantedError(LedgerError):
    """An internal signal, never raised to a caller: the command's decision depends on leases, which were not read."""

    code = "PRESENCE_WANTED"


class Judging(Command, frozen=True, kw_only=True):
    """Base of commands that depend on the session's rules; `policy_digest` identifies them, None skips the check.

    A command is made before the stream is read, so another process may have changed the rules meanwhile. `masks` tell
    how the log knows content with a secret; None where nothing is masked.
    """

    policy: Policy
    policy_digest: str | None = None
    masks: Masks | None = None


class Ask(Judging, frozen=True, kw_only=True):
    """Ask whether a call may run. `opinions` are those of the deciders after the rules, in order.

    `owner` is the person for whom the asker works. `salt` is secret and random; it keys the digests of the request.
    `claim` is the runner that takes the right to run the call where it is allowed by this command, unless that rests on a
    grant of the project. `live` None: the leases were not read, here and in the other commands that have it.
    `trace` is the asker's trace context, which is recorded and decides nothing.
    """

    request_id: str
    salt: str
    question: Question
    trace: TraceContext | None = None
    claim: Runner | None = None
    token_id: str | None = None
    owner: str | None = None
    opinions: tuple[Opinion, ...] = ()
    live: Live | None = None
    project: ProjectState | None = None


class Recheck(Judging, frozen=True, kw_only=True):
    """Judge `request_id` again, because the project's grants have changed since it was judged."""

    request_id: str
    question: Question
    project: ProjectState
    live: Live | None = None


class ClaimCall(Judging, frozen=True, kw_only=True):
    """Take the right to run an allowed call, once. `question` is the request's, which is judged again.

    `operands` are the files that the call executes, as they are now; None if nobody looked.
    """

    request_id: str
    runner: Runner
    question: Question
    operands: tuple[Operand, ...] | None = None
    project: ProjectState | None = None
    live: Live | None = None


class ReleaseClaim(Command, frozen=True, kw_only=True):
    """Give a claim back that has no recorded end, so that the call may be claimed again."""

    request_id: str
    reason: str | None = None


class EndClaims(Command, frozen=True, kw_only=True):
    """End the open claims without a recorded end of their runs; `runner` limits it to the claims of this name."""

    cause: EndCause
    runner: str | None = None


class GivenReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The content of an answer. `administrator` may answer without the input lock, which the event records.

    `digest` is that of the request as it was shown; `round` is its round then. One of them is required from round 2 on.
    `updated_input` is the tool's input as changed by the person, valid with `once` only. `told` is the prompt at which
    a person answered, as the agent's side reports: such an answer grants for this session at most. `proof` is that of a
    passkey's signature, already verified; `role` is the actor's, None if unknown. `bounds` are those of the
    grants that it makes; `patterns` replace the offered ones, None for those, and only who `may_widen` may give wider
    ones.
    """

    reply: ReplyKind
    message: str | None = None
    digest: str | None = None
    round: int | None = None
    client_id: str | None = None
    administrator: bool = False
    updated_input: Any = None
    told: str | None = None
    proof: Proof | None = None
    role: str | None = None
    bounds: GrantBounds | None = None
    patterns: tuple[str, ...] | None = None
    may_widen: bool = False


class Reply(Judging, frozen=True, kw_only=True):
    """Answer a request."""

    request_id: str
    given: GivenReply
    project: ProjectState | None = None


class Repeat(Command, frozen=True, kw_only=True):
    """Answer a request that is settled already, which needs no rules."""

    request_id: str
    given: GivenReply


class Release(Judging, frozen=True, kw_only=True):
    """Release the requests that the project's grants now allow (`cascade_always = "project"`, or a later grant)."""

    project: ProjectState
    request_id: str | None = None


class Resume(Judging, frozen=True, kw_only=True):
    """Judge the requests that a freeze held back again, after it has ended."""

    project: ProjectState | None = None


class MakeGrant(Command, frozen=True, kw_only=True):
    """Make a grant for this session, without a request."""

    grant_id: str
    permission: str
    pattern: str
    expires_in_ms: int | None = None
    uses: int | None = None
    reason: str | None = None


class Revoke(Command, frozen=True, kw_only=True):
    grant_id: str
    reason: str | None = None


class Connect(Command, frozen=True, kw_only=True):
    client_id: str
    name: str
    live: Live | None = None


class Disconnect(Command, frozen=True, kw_only=True):
    client_id: str


class TakeLock(Command, frozen=True, kw_only=True):
    """Take the input lock if it is free, else request it."""

    client_id: str


class PassLock(Command, frozen=True, kw_only=True):
    client_id: str
    to: str


class Extend(Command, frozen=True, kw_only=True):
    """Give an attended request more time, because a person thinks about it.

    `seen_ms` is the deadline that the person saw (server ms): another extension since then makes this one unnecessary.
    `role` is the actor's, None if unknown; `client_id` and `administrator` are as in `GivenReply`.
    """

    request_id: str
    reason: ExtendReason
    seen_ms: int | None = None
    client_id: str | None = None
    administrator: bool = False
    role: str | None = None


class Cancel(Command, frozen=True, kw_only=True):
    request_id: str
    cause: CancelCause
    reason: str | None = None


class Close(Command, frozen=True, kw_only=True):
    reason: str | None = None


class NoteToolFinished(Command, frozen=True, kw_only=True):
    """Record a finished tool call. `digest` is that of the call as it ran; without it, `input` is compared.

    `claim_id` is the claim under which it ran; None means the request's open one, if it has any. `salt` is secret and
    random; it keys the recorded digest.
    """

    salt: str
    request_id: str | None = None
    claim_id: str | None = None
    call_id: str | None = None
    ok: bool = True
    digest: str | None = None
    input: Any = None
    title: str | None = None
    output: str | None = None
    key: str | None = None
    masks: Masks | None = None


class NoteNotification(Command, frozen=True, kw_only=True):
    request_id: str
    service: str
    result: Literal["sent", "failed", "withdrawn"]
    person: str | None = None
    step: int | None = None
    message_id: str | None = None
    text: str | None = None
    target: str | None = None


class NoteRegression(Command, frozen=True, kw_only=True):
    """Record that the server lost acknowledged entries."""

    seen_id: str
    found_id: str


AnyCommand = (
    Open | Ask | Recheck | ClaimCall | ReleaseClaim | EndClaims | Reply | Repeat | Release | Resume | MakeGrant |
    Revoke | Connect | Disconnect | TakeLock | PassLock | Extend | Cancel | Close | NoteToolFinished |
    NoteNotification | NoteRegression
)  # fmt: skip
