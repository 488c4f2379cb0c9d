"""The state of a session: pending and settled requests, grants, clients."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec
from rpds import HashTrieMap

from ledger.core.codec import canonical_json
from ledger.core.events import (
    Actor,
    CancelCause,
    Cause,
    Opinion,
    Outcome,
    Presence,
    Settings,
    Tier,
    ToolRef,
    Value,
)
from ledger.core.grants import Grants, no_grants
from ledger.core.policy import Call, Demand, Evaluation, Offer, PolicySource, ReplyKind
from ledger.core.proofs import Proof


class Request(Value, kw_only=True, frozen=True):
    """A request as it was asked. Times are server ms; `deadline_ms` None means that it never expires.

    `told` is the description, cut to a line, of a settled request whose input is only in the log.
    """

    request_id: str
    version: int
    asked_ms: int
    asker: Actor
    permission: str
    digest: str
    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    input: Any = None
    cwd: str | None = None
    """The folder that the call would run in; the session's at that time if the log has none."""
    told: tuple[str, ...] = ()
    tool: ToolRef | None = None
    tool_name: str | None = None
    agent: str | None = None
    parent: str | None = None
    token_id: str | None = None
    owner: str | None = None
    """The person for whom the asker works."""
    demands: tuple[Demand, ...] = ()
    """Conditions on the answer."""
    evaluation: Evaluation | None = None
    opinions: tuple[Opinion, ...] = ()
    not_honoured: tuple[str, ...] = ()
    still_asked: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    grants: tuple[str, ...] = ()
    project_version: int | None = None
    rests_on_project: bool = False
    tier: Tier | None = None
    duration_ms: int | None = None
    deadline_ms: int | None = None
    unattended_ms: int | None = None
    cap_at_ms: int | None = None
    present: tuple[Presence, ...] = ()


def call_of(request: Request) -> Call:
    """Return the call that a pending request is about."""
    return Call(request.permission, request.patterns, request.tool_name, request.input, request.cwd)


def input_digest(value: Any) -> str:
    """Return the lower-case hex SHA-256 over the canonical JSON of a tool's input."""
    return sha256(canonical_json(value)).hexdigest()


class Settled(Value, kw_only=True, frozen=True):
    """The final outcome of a request, with its author and time. `reply` is None where no person answered."""

    request: Request
    outcome: Outcome
    by: Actor
    at_ms: int
    version: int
    reply: ReplyKind | None = None
    message: str | None = None
    cause: Cause | None = None
    cancel_cause: CancelCause | None = None
    told: str | None = None
    """The prompt at which a person answered, where only the agent's side reports it."""
    grants: tuple[str, ...] = ()
    granted_patterns: tuple[str, ...] = ()
    granted_to_project: bool = False
    updated_input: Any = None
    input_digest: str | None = None
    """The digest of the asked input, which is only in the log."""
    imported: bool = False
    proof: Proof | None = None
    proofs: tuple[Proof, ...] = ()
    """The proofs of the grants that released it."""
    finished: bool = False
    """True when a run of the call was recorded."""


class Client(Value, frozen=True):
    """A connected client, and the time of its connect (server ms)."""

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
    newer: bool = False
    project: str | None = None
    agent: str | None = None
    parent: str | None = None
    token_id: str | None = None
    """The access token that opened the session."""
    cwd: str | None = None
    home: str | None = None
    policy: PolicySource | None = None
    policy_digest: str = ""
    policy_source: str | None = None
    settings: Settings = Settings()
    pending: HashTrieMap[str, Request] = HashTrieMap()
    settled: HashTrieMap[str, Settled] = HashTrieMap()
    grants: Grants = no_grants()
    clients: HashTrieMap[str, Client] = HashTrieMap()
    lock: str | None = None
    lock_request: LockRequest | None = None
    noted: HashTrieMap[str, bool] = HashTrieMap()
    """The keys of recorded tool runs."""

    def find(self, request_id: str) -> Request | None:
        """Return the request with this id, pending or settled."""
        pending = self.pending.get(request_id)
        if pending is not None:
            return pending
        settled = self.settled.get(request_id)
        return None if settled is None else settled.request


def in_order(requests: Iterable[Request]) -> list[Request]:
    """Return requests in order of asking."""
    return sorted(requests, key=lambda request: request.version)


def next_due_ms(state: SessionState) -> int | None:
    """Return the earliest deadline (server ms), or None."""
    if not state.pending and state.lock_request is None:
        return None
    due = [request.deadline_ms for request in state.pending.values() if request.deadline_ms is not None]
    if state.lock_request is not None:
        due.append(state.lock_request.due_ms)
    return min(due, default=None)


def longest_connected(clients: Iterable[Client]) -> Client | None:
    """Return the longest-connected client, to which the input lock passes (`betcode.md`)."""
    return min(clients, key=lambda client: (client.version, client.client_id), default=None)
