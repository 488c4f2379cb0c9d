"""The state of a session: pending and settled requests, grants, clients. Pure.

Each look-up of a command about one pending request costs by what it finds, not by how many are pending: a deadline, the
requests of a message, those that a freeze holds back. A client that connects walks over all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import sha256
from itertools import takewhile
from math import inf
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.codec import canonical_json
from ledger.core.event_shapes import Proof
from ledger.core.events import (
    Actor,
    CancelCause,
    Cause,
    GrantBounds,
    Opinion,
    Outcome,
    Presence,
    ReopenCause,
    Settings,
    Tier,
    ToolRef,
    Value,
)
from ledger.core.freezes import FREEZE
from ledger.core.grants import Grants, no_grants
from ledger.core.operands import Operand
from ledger.core.packed_records import IndexedMap, PackedRecords, Packing, SortedKeys
from ledger.core.policy import (
    Call,
    ConsultedFile,
    Demand,
    Evaluation,
    Offer,
    Part,
    PolicySource,
    ReplyKind,
    RuleRef,
    Verdict,
)

_Deadline: TypeAlias = "tuple[int, int, str]"
"""A deadline (server ms), and the version and the id of its request."""

_Group: TypeAlias = "tuple[str, str]"

_Groups: TypeAlias = "HashTrieMap[_Group, HashTrieMap[str, bool]]"

_HELD: Final[_Group] = ("held", "")
_NO_ENTRIES: Final[HashTrieMap[Any, Any]] = HashTrieMap()
_NO_DEADLINES: Final[SortedKeys[_Deadline]] = SortedKeys()


class PendingRequests(IndexedMap["Request"]):
    """The pending requests by id. Immutable: each change returns a new one."""

    __slots__ = ("_deadlines", "_groups")

    def __init__(
        self,
        by_id: HashTrieMap[str, Request] = _NO_ENTRIES,
        deadlines: SortedKeys[_Deadline] = _NO_DEADLINES,
        groups: _Groups = _NO_ENTRIES,
    ) -> None:
        self._by_id, self._deadlines, self._groups = by_id, deadlines, groups

    @classmethod
    def of(cls, requests: Iterable[Request]) -> PendingRequests:
        """Return these requests as pending."""
        pending = cls()
        for request in requests:
            pending = pending.insert(request.request_id, request)
        return pending

    def insert(self, request_id: str, request: Request) -> PendingRequests:
        """Return the requests with one more, or with one changed."""
        known = self._by_id.get(request_id)
        deadlines, groups = self._deadlines, self._groups
        was, now = None if known is None else _deadline_of(known), _deadline_of(request)
        if was != now:
            deadlines = deadlines if was is None else deadlines.discard(was)
            deadlines = deadlines if now is None else deadlines.add(now)
        left, joined = () if known is None else _groups_of(known), _groups_of(request)
        if left != joined:
            groups = _with(_without(groups, left, request_id), joined, request_id)
        return PendingRequests(self._by_id.insert(request_id, request), deadlines, groups)

    def discard(self, request_id: str) -> PendingRequests:
        """Return the requests without one, which may not be among them."""
        known = self._by_id.get(request_id)
        if known is None:
            return self
        deadline, left, groups = _deadline_of(known), _groups_of(known), self._groups
        return PendingRequests(
            self._by_id.remove(request_id),
            self._deadlines if deadline is None else self._deadlines.discard(deadline),
            _without(groups, left, request_id) if left else groups,
        )

    def first_due(self, without: Collection[str] = ()) -> Request | None:
        """Return the request with the earliest deadline, of several the one that was asked first, but none of these."""
        first = self._deadlines.first()
        if first is not None and first[2] in without:
            first = next((one for one in self._deadlines if one[2] not in without), None)
        return None if first is None else self._by_id[first[2]]

    def due(self, now_ms: int) -> list[Request]:
        """Return the requests whose deadline has passed, in order of asking."""
        due = takewhile(lambda one: one[0] <= now_ms, self._deadlines)
        return [self._by_id[request_id] for _, request_id in sorted([one[1:] for one in due])]

    def gains_time(self, now_ms: int, least_ms: int = 0) -> bool:
        """Return whether a client that connects now gives an unattended request more time, `least_ms` or more.

        A request close to its cap gains less, once.
        """
        return any(_gains_from(one) <= now_ms - max(least_ms, 1) for one in self._by_id.values())

    def held(self) -> list[Request]:
        """Return the requests that only a freeze keeps pending, in order of asking."""
        return self._of(_HELD)

    def of_message(self, message_id: str) -> list[Request]:
        """Return the requests of tool calls of one message of an agent, in order of asking."""
        return self._of(_message(message_id))

    def _of(self, group: _Group) -> list[Request]:
        found = self._groups.get(group)
        requests = [] if found is None else [self._by_id[request_id] for request_id in found]
        return sorted(requests, key=lambda request: request.version)


def is_held(request: Request) -> bool:
    """Return whether only a freeze kept a pending request from being allowed when it was asked."""
    return bool(request.opinions) and any(one.decider == FREEZE for one in request.opinions)


def _deadline_of(request: Request) -> _Deadline | None:
    return None if request.deadline_ms is None else (request.deadline_ms, request.version, request.request_id)


def _gains_from(request: Request) -> float:
    """Return the time (server ms) at which an unattended request was given its time; infinity if it gains no more."""
    deadline_ms, cap_at_ms = request.deadline_ms, request.cap_at_ms
    if request.tier != "unattended" or deadline_ms is None or request.unattended_ms is None:
        return inf
    return inf if cap_at_ms is not None and deadline_ms >= cap_at_ms else deadline_ms - request.unattended_ms


def _groups_of(request: Request) -> tuple[_Group, ...]:
    message = () if request.tool is None else (_message(request.tool.message_id),)
    return (*message, _HELD) if request.opinions and is_held(request) else message


def _message(message_id: str) -> _Group:
    return "message", message_id


def _with(groups: _Groups, joined: Iterable[_Group], request_id: str) -> _Groups:
    for group in joined:
        groups = groups.insert(group, groups.get(group, HashTrieMap()).insert(request_id, True))
    return groups


def _without(groups: _Groups, left: Iterable[_Group], request_id: str) -> _Groups:
    for group in left:
        remaining = groups[group].remove(request_id)
        groups = groups.insert(group, remaining) if remaining else groups.remove(group)
    return groups


class Agreement(Value, kw_only=True, frozen=True):
    """A person's yes to a request that needs those of more people, at a server time (ms)."""

    by: Actor
    at_ms: int
    version: int
    digest: str
    round: int
    needed: int
    role: str | None = None
    proof: Proof | None = None
    message: str | None = None


class Request(Value, frozen=True):
    """A request as it was asked. Times are server ms; `deadline_ms` None means that it never expires.

    `summary` is the description, cut to a line, of a settled request whose input is only in the log. The order of the members
    is that of `REQUEST_OF_ASKED` and `REQUEST_OF_DETAIL`.
    """

    request_id: str
    permission: str
    digest: str
    """The recorded digest of the question, keyed with `salt`; it is shown to people."""
    version: int
    asked_ms: int
    asker: Actor
    tool: ToolRef | None = None
    tool_name: str | None = None
    agent: str | None = None
    parent: str | None = None
    token_id: str | None = None
    owner: str | None = None
    """The person for whom the asker works."""
    demands: tuple[Demand, ...] = ()
    """Conditions on the answer."""
    grants: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    """The grants with a limit of which it took a use."""
    project_version: int | None = None
    rests_on_project: bool = False
    unattended_ms: int | None = None
    present: tuple[Presence, ...] = ()
    salt: str = ""
    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    input: Any = None
    opinions: tuple[Opinion, ...] = ()
    not_honoured: tuple[str, ...] = ()
    still_asked: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    operands: tuple[Operand, ...] | None = None
    """The files that the call executes or reads as a program; None if nobody looked for them."""
    redacted: bool = False
    """True when content of the request, or of its answer, was taken out of the log."""
    cwd: str | None = None
    """The folder that the call would run in; the session's at that time if the log has none."""
    evaluation: Evaluation | None = None
    links: tuple[ConsultedFile, ...] | None = None
    """The links that the evaluation followed; None where the log has no facts about files."""
    tier: Tier | None = None
    duration_ms: int | None = None
    deadline_ms: int | None = None
    cap_at_ms: int | None = None
    waits_until_ms: int | None = None
    """The time (server ms) until which the asker said that it waits; None if it said nothing."""
    summary: tuple[str, ...] = ()
    agreed: tuple[Agreement, ...] = ()
    """The yeses of its present round before the one that settles it, in order."""
    round: int = 1
    """One more with every reopening that made it pending again."""
    reopened_for: ReopenCause | None = None
    reopened_reason: str | None = None
    """The change for which it was reopened, in words for people."""
    reopened_versions: tuple[int, ...] = ()
    """The versions that reopened it, whose content repeats its own."""
    released_claims: tuple[str, ...] = ()
    """The ids of claims that were given back."""
    ran: bool = False
    """True when a run under a claim was recorded that the log does not have, or that was given back."""


_OF_ASKED: Final = slice(Request.__struct_fields__.index("tool"), Request.__struct_fields__.index("salt"))
_OF_DETAIL: Final = slice(_OF_ASKED.stop, Request.__struct_fields__.index("redacted"))

REQUEST_OF_ASKED: Final = attrgetter(*Request.__struct_fields__[_OF_ASKED])
REQUEST_OF_DETAIL: Final = attrgetter(*Request.__struct_fields__[_OF_DETAIL])
"""The members of a request that its ask, and the ask's content, name alike, in this order.

A struct takes members by name three times as long as by position, and every ask in a log makes one of so many.
"""


def use_claim_id(request: Request, claim_id: str = "") -> str:
    """Return the id under which a call takes uses of grants: its claim's, or empty without one.

    After a claim was given back it is another one, so that the next run takes uses of its own: nobody but the agent
    knows that the first one did not run.
    """
    released = len(request.released_claims)
    return f"{claim_id}:{released}" if released else claim_id


def call_of(request: Request) -> Call:
    """Return the call that a pending request is about."""
    return Call(request.permission, request.patterns, request.tool_name, request.input, request.cwd, request.agent)


def input_digest(value: Any) -> str:
    """Return the lower-case hex SHA-256 over the canonical JSON of a tool's input."""
    return sha256(canonical_json(value)).hexdigest()


class HeldClaim(Value, kw_only=True, frozen=True):
    """The claim of a call: its runner, its author and its time (server ms).

    `status`: `open` while no end is recorded, so that the call may have run; then `finished`, `unknown` (it may have
    run, and its end will not be known) or `released` (free to be claimed again). `number` is its place among the claims
    of its session.
    """

    claim_id: str
    runner: str
    by: Actor
    at_ms: int
    version: int
    round: int
    number: int
    project_version: int | None = None
    status: Literal["open", "released", "finished", "unknown"] = "open"
    ended_ms: int | None = None


class Settled(Value, frozen=True):
    """The final outcome of a request, with its author and time. `reply` is None where no person answered."""

    request: Request
    outcome: Outcome
    by: Actor
    at_ms: int
    version: int
    input_digest: str | None = None
    """The digest of the asked input, which is only in the log."""
    proofs: tuple[Proof, ...] = ()
    """The proofs of the grants that released it."""
    reply: ReplyKind | None = None
    message: str | None = None
    cause: Cause | None = None
    cancel_cause: CancelCause | None = None
    told: str | None = None
    """The prompt at which a person answered, where only the agent's side reports it."""
    grants: tuple[str, ...] = ()
    granted_patterns: tuple[str, ...] = ()
    edited_patterns: tuple[str, ...] | None = None
    """A person's own patterns in place of the offered ones."""
    granted_to_project: bool = False
    bounds: GrantBounds | None = None
    """The bounds of the grants that the answer made."""
    wider: tuple[str, ...] = ()
    """The ids of those grants that allow more than was offered."""
    updated_input: Any = None
    imported: bool = False
    proof: Proof | None = None
    approvers: tuple[str, ...] = ()
    """The people whose yes allowed a call that needs several."""
    finished: bool = False
    """True when a run of the call was recorded."""
    claim: HeldClaim | None = None
    """The last claim of the call."""


_AGENT: Final = Actor("agent", "agent", via="http")
_RULES: Final = (RuleRef("bash *: ask", "project", "/opencode.json", 1),)
_ASKED: Final = Request(
    "per_",
    "bash",
    "",
    1,
    1,
    _AGENT,
    tool=ToolRef("msg_", "call_"),
    tool_name="Bash",
    project_version=0,
    unattended_ms=604_800_000,
    patterns=("",),
    always=("git commit *",),
    cwd="/home/",
    evaluation=Evaluation(Verdict.ASK, (Part("", Verdict.ASK, _RULES),), _RULES, None, "a rule asks about `", ("",)),
    links=(),
    tier="attended",
    duration_ms=300_000,
    deadline_ms=1,
    cap_at_ms=1,
    summary=("",),
)
_CLAIM: Final = HeldClaim(
    claim_id="clm_", runner="hook", by=_AGENT, at_ms=1, version=1, round=1, number=1, status="finished", ended_ms=1
)

SETTLED_PACKING: Final = Packing(
    Settled,
    age_of=lambda settled: settled.version,
    whole_bytes=2200,
    usual=(
        Settled(
            _ASKED, "allowed", Actor("person", "", via="http"), 1, 1, "", reply="once", finished=True, claim=_CLAIM
        ),
        Settled(replace(_ASKED, evaluation=Evaluation(Verdict.ALLOW, rules=_RULES)), "allowed", _AGENT, 1, 1, ""),
    ),
)


class Client(Value, frozen=True):
    """A client on record, and the time of its connect (server ms)."""

    client_id: str
    name: str
    since_ms: int
    version: int


class LockRequest(Value, frozen=True):
    """A request for the input lock, and the server time (ms) at which it passes."""

    client_id: str
    due_ms: int


class SessionState(Value, kw_only=True, frozen=True):
    """The fold of a session's stream. Immutable: `evolve` returns a new one."""

    session_id: str
    version: int = 0
    last_ms: int = 0
    opened_ms: int | None = None
    closed_ms: int | None = None
    imported_ms: int | None = None
    """The time (server ms) of an import of the earlier events from a file, if any."""
    answered_ms: int | None = None
    """The time (server ms) of the last answer that a person gave the ledger itself."""
    newer: bool = False
    project: str | None = None
    agent: str | None = None
    parent: str | None = None
    token_id: str | None = None
    """The access token that opened the session."""
    cwd: str | None = None
    home: str | None = None
    dialect: str = ""
    """The dialect of the rules; empty before they are known, and once they were redacted."""
    edition: str | None = None
    policy_digest: str = ""
    policy_source: str | None = None
    rules_version: int = 0
    """The version that brought the rules."""
    rules_redacted: bool = False
    redacted_version: int = 0
    """The version of the last redaction."""
    settings: Settings = Settings()
    pending: PendingRequests = PendingRequests()
    settled: PackedRecords[Settled] = PackedRecords(SETTLED_PACKING)
    grants: Grants = no_grants()
    clients: HashTrieMap[str, Client] = HashTrieMap()
    """The clients on record. They are all that are connected only where the holder of the input lock answers; who is
    online is told by leases (`Session.present`)."""
    lock: str | None = None
    lock_request: LockRequest | None = None
    noted: HashTrieMap[str, bool] = HashTrieMap()
    """The keys of recorded tool runs."""
    open_claims: HashTrieMap[int, str] = HashTrieMap()
    """The requests with an open claim, by the claim's number (`ledger.session.open_claims`)."""
    claims_count: int = 0
    first_claim: int = 1
    """The number of the earliest open claim, if there is one."""
    first_claim_ms: int = 0
    """The time (server ms) of the earliest open claim, if there is one."""

    @property
    def language(self) -> PolicySource:
        """Return a source without rules, in the dialect and edition of the session's rules."""
        return PolicySource(self.dialect, options={} if self.edition is None else {"edition": self.edition})

    def find(self, request_id: str) -> Request | None:
        """Return the request with this id, pending or settled."""
        pending = self.pending.get(request_id)
        if pending is not None:
            return pending
        settled = self.settled.get(request_id)
        return None if settled is None else settled.request


def without_facts(evaluation: Evaluation | None) -> Evaluation | None:
    """Return the evaluation as agents and people are shown it; its facts are only in the log."""
    if evaluation is None or evaluation.facts is None:
        return evaluation
    return replace(evaluation, facts=None)


def in_order(requests: Iterable[Request]) -> list[Request]:
    """Return requests in order of asking."""
    return sorted(requests, key=lambda request: request.version)


def next_due_ms(state: SessionState, without: Collection[str] = ()) -> int | None:
    """Return the earliest deadline (server ms), or None; `without` leaves these pending requests out."""
    request = state.pending.first_due(without)
    due_ms = None if request is None else request.deadline_ms
    if state.lock_request is not None:
        due_ms = state.lock_request.due_ms if due_ms is None else min(due_ms, state.lock_request.due_ms)
    if state.open_claims:
        due_ms = claim_due_ms(state) if due_ms is None else min(due_ms, claim_due_ms(state))
    return due_ms


def claim_due_ms(state: SessionState) -> int:
    """Return the time (server ms) at which the earliest open claim ends as unknown; there must be one."""
    return state.first_claim_ms + state.settings.claim_timeout_ms


def longest_connected(clients: Iterable[Client]) -> Client | None:
    """Return the longest-connected client, to which the input lock passes (`betcode.md`)."""
    return min(clients, key=lambda client: (client.version, client.client_id), default=None)
