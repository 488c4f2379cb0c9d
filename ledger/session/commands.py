"""What can be asked of a session. Commands are values: ids, rulesets, presence and project state come in with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from ledger.core.errors import LedgerError
from ledger.core.events import (
    Actor,
    CancelCause,
    Opinion,
    Presence,
    Settings,
    ToolRef,
)
from ledger.core.policy import Call, Policy, PolicySource, ReplyKind
from ledger.core.proofs import Proof
from ledger.project.state import ProjectState


class Command(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all commands; `actor` becomes the author of the events that it makes."""

    actor: Actor


class Live(msgspec.Struct, frozen=True, gc=False):
    """Who is there by the leases: clients of this session, and people with the inbox open.

    `asked_for` are the clients whose leases were looked up; None leaves that unchecked. One that has connected since
    must not be taken for one whose lease has run out.
    """

    clients: frozenset[str] = frozenset()
    inbox: tuple[Presence, ...] = ()
    asked_for: frozenset[str] | None = None

    def covers(self, clients: Iterable[str]) -> bool:
        """Whether it says of each of these clients if it is there."""
        return self.asked_for is None or self.asked_for.issuperset(clients)

    def __contains__(self, client_id: object) -> bool:
        return client_id in self.clients or any(one.client_id == client_id for one in self.inbox)


class Open(Command, frozen=True, kw_only=True):
    """Open the session, or attach to it. None in `policy` or `settings` keeps what it has.

    `token_id` is the access token whose own the session becomes.
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
    """A signal, never shown to a caller: the session has other rules by now than the command was made with."""

    code = "OUTDATED_RULES"


class Judging(Command, frozen=True, kw_only=True):
    """Base of commands that rest on the session's rules; `policy_digest` names them, None leaves them unchecked.

    A command is made before the stream is read, so another process may have changed the rules meanwhile.
    """

    policy: Policy
    policy_digest: str | None = None


class Ask(Judging, frozen=True, kw_only=True):
    """May this run? `opinions` are what the deciders after the rules said of it, in their order.

    `owner` is the person for whom the asker works.
    """

    request_id: str
    call: Call
    digest: str
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    tool: ToolRef | None = None
    agent: str | None = None
    parent: str | None = None
    token_id: str | None = None
    owner: str | None = None
    opinions: tuple[Opinion, ...] = ()
    live: Live = Live()
    project: ProjectState | None = None


class Recheck(Judging, frozen=True, kw_only=True):
    """The project's grants are not those that `request_id` was judged by: judge again before anything is returned."""

    request_id: str
    call: Call
    metadata: dict[str, Any] = {}
    project: ProjectState
    live: Live = Live()


class Reply(Judging, frozen=True, kw_only=True):
    """Answer a request. `administrator` may answer without the input lock, and it is marked.

    `updated_input` is what the person made of the tool's input; only `once` goes with it. `told` is the prompt where
    the agent's side says that a person answered: such an answer is kept for this session at most. `proof` is what a
    passkey signed, its signature checked already; `role` is that of whoever answers, None where it is not known.
    """

    request_id: str
    reply: ReplyKind
    message: str | None = None
    digest: str | None = None
    client_id: str | None = None
    administrator: bool = False
    updated_input: Any = None
    told: str | None = None
    project: ProjectState | None = None
    proof: Proof | None = None
    role: str | None = None


class Release(Judging, frozen=True, kw_only=True):
    """Release what the project's grants now allow (`cascade_always = "project"`, or a grant found after an ask)."""

    project: ProjectState
    request_id: str | None = None


class MakeGrant(Command, frozen=True, kw_only=True):
    """A grant for this session, not from a request."""

    grant_id: str
    permission: str
    pattern: str
    expires_in_ms: int | None = None
    reason: str | None = None


class Revoke(Command, frozen=True, kw_only=True):
    grant_id: str
    reason: str | None = None


class Connect(Command, frozen=True, kw_only=True):
    client_id: str
    name: str
    live: Live = Live()


class Disconnect(Command, frozen=True, kw_only=True):
    client_id: str


class TakeLock(Command, frozen=True, kw_only=True):
    """Take the input lock if it is free, else ask for it."""

    client_id: str


class PassLock(Command, frozen=True, kw_only=True):
    client_id: str
    to: str


class Cancel(Command, frozen=True, kw_only=True):
    request_id: str
    cause: CancelCause
    reason: str | None = None


class Close(Command, frozen=True, kw_only=True):
    reason: str | None = None


class NoteToolFinished(Command, frozen=True, kw_only=True):
    """What really ran. `digest` is that of the request as it ran, where the caller can tell; else the input tells."""

    request_id: str | None = None
    call_id: str | None = None
    ok: bool = True
    digest: str | None = None
    input: Any = None
    title: str | None = None
    output: str | None = None
    key: str | None = None


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
    """The server has lost entries that this writer had seen."""

    seen_id: str
    found_id: str


AnyCommand = (
    Open
    | Ask
    | Recheck
    | Reply
    | Release
    | MakeGrant
    | Revoke
    | Connect
    | Disconnect
    | TakeLock
    | PassLock
    | Cancel
    | Close
    | NoteToolFinished
    | NoteNotification
    | NoteRegression
)
