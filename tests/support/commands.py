"""Short constructors of commands for the tests of sessions, validated like commands from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ledger.core.events import (
    Actor,
    CancelCause,
    ExtendReason,
    GrantBounds,
    Opinion,
    Presence,
    Settings,
    ToolRef,
)
from ledger.core.policy import ReplyKind
from ledger.core.questions import Runner
from ledger.core.requests import in_folder, make_question
from ledger.policy import Layer, PolicySource, digest
from ledger.project import GrantInProject, ProjectState, RevokeInProject, TakeUse
from ledger.session.commands import (
    Ask,
    Cancel,
    ClaimCall,
    Close,
    Connect,
    Disconnect,
    EndClaims,
    Extend,
    GivenReply,
    Live,
    MakeGrant,
    NoteNotification,
    NoteToolFinished,
    Open,
    PassLock,
    Recheck,
    Release,
    ReleaseClaim,
    Repeat,
    Reply,
    Revoke,
    TakeLock,
)
from tests.support.salts import SALT
from tests.support.scenario import AS_IT_STANDS, AS_OPENED, HasInboxOpen

AGENT: Final = Actor("agent", "claude")
ANN: Final = Actor("person", "ann", "web")
BOB: Final = Actor("person", "bob", "web")
ROOT: Final = Actor("local", "root@host")

Rules: TypeAlias = Mapping[str, str | Mapping[str, str]]


def source(rules: Rules | None = None, *, dialect: str = "opencode", **options: Any) -> PolicySource:
    layers = (Layer("project", config={"permission": rules}, file="opencode.json"),) if rules else ()
    return PolicySource(dialect, layers, options)


def opens(
    rules: Rules | None = None,
    *,
    project: str | None = None,
    settings: Settings | None = None,
    dialect: str = "opencode",
    agent: str | None = None,
    **options: Any,
) -> Open:
    policy = source(rules, dialect=dialect, **options)
    return Open(
        actor=AGENT, project=project, agent=agent, policy=policy, policy_digest=digest(policy), settings=settings
    )


def asks(
    request_id: str,
    *patterns: str,
    permission: str = "bash",
    always: tuple[str, ...] = (),
    metadata: dict[str, Any] | None = None,
    message_id: str | None = None,
    tool_name: str | None = None,
    tool_input: Any = None,
    parent: str | None = None,
    opinions: tuple[Opinion, ...] = (),
    cwd: str | None = None,
    by: Actor = AGENT,
    claim: Runner | None = None,
    live: Live | None = None,
    waits: float | None = None,
) -> Ask:
    """Return an ask; without `live` the scenario or the ledger tells who is present."""
    tool = ToolRef(message_id, f"call_{request_id}") if message_id else None
    question = make_question(
        permission,
        patterns,
        always=always,
        metadata=metadata,
        tool=tool,
        tool_name=tool_name,
        tool_input=tool_input,
        parent=parent,
        waits=waits,
    )
    question = in_folder(question, cwd)
    return Ask(
        actor=by,
        request_id=request_id,
        salt=SALT,
        question=question,
        claim=claim,
        live=live,
        policy=AS_OPENED,
        opinions=opinions,
        project=AS_IT_STANDS,
    )


def claims(asked: Ask, runner: Runner, *, by: Actor | None = None) -> ClaimCall:
    """Return the claim of a request by a runner, with the content that the log has of it."""
    return ClaimCall(
        actor=by or asked.actor,
        request_id=asked.request_id,
        runner=runner,
        question=asked.question,
        policy=AS_OPENED,
        project=AS_IT_STANDS,
    )


def releases_claim(request_id: str, *, by: Actor = ANN, reason: str | None = None) -> ReleaseClaim:
    return ReleaseClaim(actor=by, request_id=request_id, reason=reason)


def ends_claims(runner: str | None = None) -> EndClaims:
    return EndClaims(actor=AGENT, cause="agent_ended", runner=runner)


def rechecks(asked: Ask) -> Recheck:
    """Return the recheck an asker sends when the project's stream is newer than the version it was judged by."""
    return Recheck(
        actor=asked.actor, request_id=asked.request_id, question=asked.question, policy=AS_OPENED, project=AS_IT_STANDS
    )


def replies(
    request_id: str,
    reply: ReplyKind,
    *,
    by: Actor = ANN,
    message: str | None = None,
    shown: str | None = None,
    round_: int | None = None,
    client: str | None = None,
    administrator: bool = False,
    edited: Any = None,
    told: str | None = None,
    bounds: GrantBounds | None = None,
    patterns: tuple[str, ...] | None = None,
    may_widen: bool = False,
) -> Reply:
    return Reply(
        actor=by,
        request_id=request_id,
        given=GivenReply(
            reply=reply,
            message=message,
            digest=shown,
            round=round_,
            client_id=client,
            administrator=administrator,
            updated_input=edited,
            told=told,
            bounds=bounds,
            patterns=patterns,
            may_widen=may_widen,
        ),
        policy=AS_OPENED,
        project=AS_IT_STANDS,
    )


def repeat_of(reply: Reply) -> Repeat:
    """Return the same answer as one to a settled request, which needs no rules."""
    return Repeat(actor=reply.actor, request_id=reply.request_id, given=reply.given)


def releases(request_id: str | None = None, *, project: ProjectState = AS_IT_STANDS) -> Release:
    return Release(actor=ANN, policy=AS_OPENED, project=project, request_id=request_id)


def grants(
    grant_id: str, permission: str, pattern: str, *, expires_in_ms: int | None = None, uses: int | None = None
) -> MakeGrant:
    return MakeGrant(
        actor=ANN,
        grant_id=grant_id,
        permission=permission,
        pattern=pattern,
        expires_in_ms=expires_in_ms,
        uses=uses,
    )


def revokes(grant_id: str, reason: str | None = None) -> Revoke:
    return Revoke(actor=BOB, grant_id=grant_id, reason=reason)


def grants_in_project(
    grant_id: str, permission: str, pattern: str, *, expires_in_ms: int | None = None, uses: int | None = None
) -> GrantInProject:
    return GrantInProject(
        actor=ANN,
        grant_id=grant_id,
        permission=permission,
        pattern=pattern,
        expires_in_ms=expires_in_ms,
        uses=uses,
    )


def takes_use(grant_id: str, request_id: str, session: str = "ses_1", claim_id: str = "") -> TakeUse:
    return TakeUse(actor=AGENT, grant_id=grant_id, session=session, request_id=request_id, claim_id=claim_id)


def revokes_in_project(grant_id: str) -> RevokeInProject:
    return RevokeInProject(actor=BOB, grant_id=grant_id)


def connects(client_id: str, name: str = "ann") -> Connect:
    return Connect(actor=ANN, client_id=client_id, name=name)


def disconnects(client_id: str) -> Disconnect:
    return Disconnect(actor=ANN, client_id=client_id)


def has_inbox_open(client_id: str, name: str = "ann") -> HasInboxOpen:
    return HasInboxOpen(Presence(client_id, name))


def takes_lock(client_id: str) -> TakeLock:
    return TakeLock(actor=ANN, client_id=client_id)


def passes_lock(client_id: str, to: str) -> PassLock:
    return PassLock(actor=ANN, client_id=client_id, to=to)


def extends(
    request_id: str,
    reason: ExtendReason = "by_hand",
    *,
    by: Actor = ANN,
    seen_ms: int | None = None,
    client: str | None = None,
    administrator: bool = False,
    role: str | None = None,
) -> Extend:
    return Extend(
        actor=by,
        request_id=request_id,
        reason=reason,
        seen_ms=seen_ms,
        client_id=client,
        administrator=administrator,
        role=role,
    )


def cancels(request_id: str, cause: CancelCause = "asker_gave_up", reason: str | None = None) -> Cancel:
    return Cancel(actor=AGENT, request_id=request_id, cause=cause, reason=reason)


def closes(reason: str | None = None) -> Close:
    return Close(actor=AGENT, reason=reason)


def finishes_tool(
    request_id: str | None, *, digest: str | None = None, ok: bool = True, claim_id: str | None = None
) -> NoteToolFinished:
    return NoteToolFinished(
        actor=AGENT, request_id=request_id, salt=SALT, digest=digest, ok=ok, output="done", claim_id=claim_id
    )


def notifies(request_id: str) -> NoteNotification:
    return NoteNotification(actor=AGENT, request_id=request_id, service="ntfy", result="sent", text="look")
