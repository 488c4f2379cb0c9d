"""Which events a command makes. Pure: everything it depends on is in the state, the command and `now_ms`.

Nothing to do is no events, so a repeated command is harmless; what is not allowed is raised. `now_ms` is the writer's
estimate of the server's clock: what rests on it is bound by the time window of the append, which the server checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from ledger.errors import (
    AlreadyAnsweredError,
    DifferentRequestError,
    DigestMismatchError,
    InputError,
    NewerSchemaError,
    NoInputLockError,
    SessionClosedError,
    StaleReplyError,
    UnknownGrantError,
    UnknownRequestError,
    UnknownSessionError,
)
from ledger.events import (
    Asked,
    AskedDetail,
    Cancelled,
    Cause,
    ClientConnected,
    ClientDisconnected,
    Event,
    Granted,
    GrantedDetail,
    LockPassed,
    LockRequested,
    LockTaken,
    LogRegressed,
    Notification,
    NotificationDetail,
    PolicyChanged,
    PolicyDetail,
    Presence,
    ReasonDetail,
    Reopened,
    ReopenedDetail,
    Replied,
    RepliedDetail,
    Revoked,
    Scope,
    SessionClosed,
    SessionOpened,
    Settings,
    Tier,
    ToolFinished,
    ToolFinishedDetail,
)
from ledger.grants import StandingGrant, derived_grant_id, earliest_expiry, in_force
from ledger.limits import LOCK_REQUEST_MS
from ledger.policy.model import Evaluation, PolicySource, Verdict
from ledger.project import ProjectState
from ledger.session.commands import (
    AnyCommand,
    Ask,
    Cancel,
    Close,
    Connect,
    Disconnect,
    Live,
    MakeGrant,
    NoteNotification,
    NoteRegression,
    NoteToolFinished,
    Open,
    PassLock,
    Recheck,
    Release,
    Reply,
    Revoke,
    TakeLock,
)
from ledger.session.settle import drop_absent, lock_after_disconnect
from ledger.session.state import Request, SessionState, Settled, in_order
from ledger.session.texts import describe_settled
from ledger.session.verdicts import grants_that_release, with_opinions

ALWAYS_SCOPE: dict[str, Scope] = {"brutus": "session", "betcode": "session"}
"""What `always` reaches: the project, but where the source keeps approvals per session (`brutus.md`, Manager)."""


class Decision(msgspec.Struct, frozen=True):
    """Events, and the server time (ms) after which they must not be written, because what they rest on ends then."""

    events: tuple[Event, ...] = ()
    not_after_ms: int | None = None


def decide(state: SessionState, command: AnyCommand, now_ms: int) -> Decision:
    """The events that a command makes. Raises an error of `ledger.errors` when it is not allowed."""
    if state.newer:
        raise NewerSchemaError(
            f"session `{state.session_id}` holds events of a newer version; upgrade this worker",
            session=state.session_id,
        )
    return _DECIDERS[type(command)](state, command, now_ms)


# --- the session itself ---------------------------------------------------------------------------------------------


def _open(state: SessionState, command: Open, now_ms: int) -> Decision:
    if state.opened_ms is None:
        opened = SessionOpened(
            project=command.project,
            agent=command.agent,
            parent=command.parent,
            dialect=(command.policy or PolicySource()).dialect,
            policy_digest=command.policy_digest,
            policy_source=command.policy_source,
            settings=command.settings or Settings(),
            detail=PolicyDetail(command.policy or PolicySource(), command.cwd),
        )
        return Decision((opened,))
    _same(state, "project", state.project, command.project)
    if state.closed_ms is not None:
        return Decision()
    policy_changes = command.policy is not None and command.policy_digest != state.policy_digest
    settings = command.settings or state.settings
    if not policy_changes and settings == state.settings:
        return Decision()
    changed = PolicyChanged(
        dialect=(command.policy or state.policy or PolicySource()).dialect,
        policy_digest=command.policy_digest if policy_changes else state.policy_digest,
        policy_source=command.policy_source if policy_changes else state.policy_source,
        settings=settings,
        detail=PolicyDetail(command.policy or state.policy or PolicySource(), command.cwd or state.cwd),
    )
    return Decision((changed,))


def _same(state: SessionState, what: str, has: str | None, wanted: str | None) -> None:
    if wanted is not None and wanted != has:
        raise InputError(
            f"session `{state.session_id}` has {what} `{has or 'none'}`, not `{wanted}`; use another session id",
            session=state.session_id,
        )


def _require_open(state: SessionState) -> None:
    _require_opened(state)
    if state.closed_ms is not None:
        raise SessionClosedError(f"session `{state.session_id}` is closed", session=state.session_id)


def _close(state: SessionState, command: Close, now_ms: int) -> Decision:
    if state.closed_ms is not None:
        return Decision()
    _require_open(state)
    cancelled = [
        Cancelled(request_id=request.request_id, cause="session_closed")
        for request in in_order(state.pending.values())
    ]
    closed = SessionClosed(detail=ReasonDetail(command.reason) if command.reason else None)
    return Decision((*cancelled, closed))


# --- ask ------------------------------------------------------------------------------------------------------------


def _ask(state: SessionState, command: Ask, now_ms: int) -> Decision:
    known = state.find(command.request_id)
    if known is not None:
        _same_content(state, known, command)
        return Decision()
    _require_open(state)
    standing = _standing(state, command.project, now_ms)
    evaluation = command.policy.evaluate(command.call, [grant.as_policy_grant() for grant in standing])
    verdict = with_opinions(evaluation.verdict, command.opinions)
    used = _used_grants(evaluation, standing) if verdict is Verdict.ALLOW else ()
    before = drop_absent(state, command.live) if verdict is Verdict.ASK else []
    present = _present(state, command.live) if verdict is Verdict.ASK else ()
    tier, duration_ms = _tier(state.settings, present) if verdict is Verdict.ASK else (None, None)
    asked = Asked(
        request_id=command.request_id,
        permission=command.call.permission,
        verdict=verdict,
        digest=command.digest,
        policy_digest=state.policy_digest,
        tier=tier,
        duration_ms=duration_ms,
        unattended_ms=state.settings.unattended_ms if verdict is Verdict.ASK else None,
        cap_ms=state.settings.cap_ms if verdict is Verdict.ASK else None,
        present=present,
        project_version=command.project.version if command.project else None,
        grants=tuple(grant.grant_id for grant in used),
        rests_on_project=_rests_on_project(used, command.project),
        tool=command.tool,
        tool_name=command.call.tool_name,
        agent=command.agent or state.agent,
        parent=command.parent or state.parent,
        detail=AskedDetail(
            patterns=command.call.patterns,
            always=command.always,
            metadata=command.metadata,
            input=command.call.input,
            evaluation=evaluation,
            opinions=command.opinions,
        ),
    )
    return Decision((*before, asked), _until(used))


def _same_content(state: SessionState, known: Request, command: Ask) -> None:
    if known.digest != command.digest:
        raise DifferentRequestError(
            f"request `{command.request_id}` of session `{state.session_id}` was asked with another content; "
            "use another request id",
            request_id=command.request_id,
            session=state.session_id,
        )


def _recheck(state: SessionState, command: Recheck, now_ms: int) -> Decision:
    """DESIGN: an allow that rests on a project grant counts only if nothing newer takes the grant back."""
    settled = state.settled.get(command.request_id)
    if settled is None or settled.outcome != "allowed" or not settled.request.rests_on_project:
        return Decision()
    if settled.reply is not None:
        return Decision()
    standing = _standing(state, command.project, now_ms)
    evaluation = command.policy.evaluate(command.call, [grant.as_policy_grant() for grant in standing])
    verdict = with_opinions(evaluation.verdict, settled.request.opinions)
    if verdict is Verdict.ALLOW:
        return Decision()
    present = _present(state, command.live) if verdict is Verdict.ASK else ()
    tier, duration_ms = _tier(state.settings, present) if verdict is Verdict.ASK else (None, None)
    reopened = Reopened(
        request_id=command.request_id,
        verdict=verdict,
        tier=tier,
        duration_ms=duration_ms,
        unattended_ms=state.settings.unattended_ms if verdict is Verdict.ASK else None,
        cap_ms=state.settings.cap_ms if verdict is Verdict.ASK else None,
        project_version=command.project.version,
        present=present,
        detail=ReopenedDetail(evaluation),
    )
    if state.closed_ms is not None and verdict is Verdict.ASK:
        return Decision((reopened, Cancelled(request_id=command.request_id, cause="session_closed")))
    return Decision((reopened,))


def _standing(state: SessionState, project: ProjectState | None, now_ms: int) -> list[StandingGrant]:
    """The grants in force: the session's own, then its project's."""
    standing = list(in_force(state.grants, now_ms))
    if project is None:
        return standing
    if project.newer:
        raise NewerSchemaError(
            f"project `{project.project_id}` holds events of a newer version; upgrade this worker",
            project=project.project_id,
        )
    return standing + list(in_force(project.grants, now_ms))


def _used_grants(evaluation: Evaluation, standing: Sequence[StandingGrant]) -> tuple[StandingGrant, ...]:
    named = {grant_id for part in evaluation.parts for grant_id in part.grants}
    return tuple(grant for grant in standing if grant.grant_id in named)


def _rests_on_project(used: Iterable[StandingGrant], project: ProjectState | None) -> bool:
    return project is not None and any(grant.grant_id in project.grants for grant in used)


def _until(used: Iterable[StandingGrant]) -> int | None:
    expiry = earliest_expiry(used)
    return None if expiry is None else expiry - 1


def _present(state: SessionState, live: Live) -> tuple[Presence, ...]:
    here = {client.client_id: client.name for client in state.clients.values() if client.client_id in live}
    here.update((one.client_id, one.name) for one in live.inbox)
    return tuple(Presence(client_id, name) for client_id, name in sorted(here.items()))


def _tier(settings: Settings, present: Sequence[Presence]) -> tuple[Tier, int | None]:
    return ("attended", settings.attended_ms) if present else ("unattended", settings.unattended_ms)


# --- reply ----------------------------------------------------------------------------------------------------------


def _reply(state: SessionState, command: Reply, now_ms: int) -> Decision:
    settled = state.settled.get(command.request_id)
    if settled is not None:
        _refuse_unless_same(state, settled, command)
        return Decision()
    request = state.pending.get(command.request_id)
    if request is None:
        raise UnknownRequestError(
            f"session `{state.session_id}` has no request `{command.request_id}`",
            request_id=command.request_id,
            session=state.session_id,
        )
    if command.digest is not None and command.digest != request.digest:
        raise DigestMismatchError(
            f"the answer was given to a request with digest `{command.digest}`, but `{request.request_id}` has "
            f"`{request.digest}`; look at it again",
            request_id=request.request_id,
            session=state.session_id,
        )
    override = _check_lock(state, request, command)
    if command.reply == "reject":
        return _reject(state, request, command, override)
    return _allow(state, request, command, override, now_ms)


def _refuse_unless_same(state: SessionState, settled: Settled, command: Reply) -> None:
    names = {"request_id": command.request_id, "session": state.session_id}
    if settled.outcome == "expired":
        raise StaleReplyError("Permission request expired", **names)
    same_answer = settled.reply == command.reply
    same_words = command.reply != "reject" or (settled.message or "") == (command.message or "")
    if not (same_answer and same_words):
        raise AlreadyAnsweredError(
            f"request `{command.request_id}` was already {describe_settled(settled)}",
            **names,
            outcome=settled.outcome,
            reply=settled.reply,
            by=settled.by.name,
            at_ms=settled.at_ms,
            message=settled.message,
        )


def _check_lock(state: SessionState, request: Request, command: Reply) -> bool:
    if state.settings.answering == "anyone" or (command.client_id is not None and command.client_id == state.lock):
        return False
    if command.administrator:
        return True
    holder = f"`{state.lock}` holds it" if state.lock else "nobody holds it; connect and take it"
    raise NoInputLockError(
        f"only the client that holds the input lock may answer in session `{state.session_id}`: {holder}",
        request_id=request.request_id,
        session=state.session_id,
        holder=state.lock,
    )


def _reject(state: SessionState, request: Request, command: Reply, override: bool) -> Decision:
    """Source: `opencode-zh.md` 6.2. The others are rejected in order of asking, without the feedback."""
    message = command.message or None
    first = Replied(
        request_id=request.request_id,
        reply="reject",
        outcome="corrected" if message else "rejected",
        client_id=command.client_id,
        override=override,
        detail=RepliedDetail(message) if message else None,
    )
    others = [
        Replied(request_id=other.request_id, reply="reject", outcome="rejected", cause=_cascaded(request))
        for other in in_order(state.pending.values())
        if _falls_with(state.settings, request, other)
    ]
    return Decision((first, *others))


def _falls_with(settings: Settings, request: Request, other: Request) -> bool:
    if other.request_id == request.request_id or settings.cascade_reject == "none":
        return False
    if settings.cascade_reject == "session":
        return True
    same_message = request.tool is not None and other.tool is not None
    return same_message and request.tool.message_id == other.tool.message_id  # type: ignore[union-attr]


def _cascaded(request: Request) -> Cause:
    return Cause(kind="cascade", request_id=request.request_id)


def _allow(state: SessionState, request: Request, command: Reply, override: bool, now_ms: int) -> Decision:
    """Source: `opencode-zh.md` 6.3 (always), `betcode.md` (ALLOW_SESSION creates a grant)."""
    patterns = tuple(dict.fromkeys(request.always)) if command.reply != "once" else ()
    scope = _scope_of(state, command.reply) if patterns else None
    in_project = scope == "project" and state.project is not None
    ids = tuple(derived_grant_id(state.session_id, request.request_id, index) for index in range(len(patterns)))
    replied = Replied(
        request_id=request.request_id,
        reply=command.reply,
        outcome="allowed",
        scope="project" if in_project else ("session" if scope else None),
        grants=ids,
        client_id=command.client_id,
        override=override,
        detail=RepliedDetail(command.message or None, patterns) if patterns or command.message else None,
    )
    if scope is None:
        return Decision((replied,))
    made = [
        _fresh_grant(command, request, "project" if in_project else "session", grant_id, pattern, now_ms)
        for grant_id, pattern in zip(ids, patterns, strict=True)
    ]
    granted = [] if in_project else [_granted(state, grant) for grant in made]
    standing = _standing(state, command.project, now_ms) + made
    released, not_after_ms = _released_by(state, command.policy, request, standing, command.reply)
    return Decision((replied, *granted, *released), not_after_ms)


def _scope_of(state: SessionState, reply: str) -> Scope:
    if reply == "session":
        return "session"
    dialect = state.policy.dialect if state.policy else "opencode"
    return ALWAYS_SCOPE.get(dialect, "project")


def _fresh_grant(
    command: Reply, request: Request, scope: Scope, grant_id: str, pattern: str, now_ms: int
) -> StandingGrant:
    """The grant that is being made, as it will stand: the cascade of the same append already counts it."""
    return StandingGrant(
        grant_id=grant_id,
        permission=request.permission,
        pattern=pattern,
        scope=scope,
        by=command.actor,
        at_ms=now_ms,
        version=0,
        request_id=request.request_id,
    )


def _granted(state: SessionState, grant: StandingGrant) -> Granted:
    return Granted(
        grant_id=grant.grant_id,
        permission=grant.permission,
        scope=grant.scope,
        session=state.session_id,
        request_id=grant.request_id,
        detail=GrantedDetail(grant.pattern),
    )


def _released_by(
    state: SessionState, policy: Any, request: Request, standing: Sequence[StandingGrant], reply: Any
) -> tuple[list[Replied], int | None]:
    released: list[Replied] = []
    used: list[StandingGrant] = []
    for other in in_order(state.pending.values()):
        if other.request_id == request.request_id:
            continue
        lifting = grants_that_release(policy, other, standing)
        if lifting is not None:
            used += lifting
            released.append(
                Replied(request_id=other.request_id, reply=reply, outcome="allowed", cause=_cascaded(request))
            )
    return released, _until(used)


def _release(state: SessionState, command: Release, now_ms: int) -> Decision:
    standing = _standing(state, command.project, now_ms)
    released: list[Replied] = []
    used: list[StandingGrant] = []
    for request in in_order(state.pending.values()):
        if command.request_id not in (None, request.request_id):
            continue
        lifting = grants_that_release(command.policy, request, standing)
        if lifting:
            used += lifting
            cause = Cause(kind="grant", grant_id=lifting[0].grant_id)
            released.append(
                Replied(request_id=request.request_id, reply="always", outcome="allowed", cause=cause)
            )
    return Decision(tuple(released), _until(used))


# --- grants ---------------------------------------------------------------------------------------------------------


def _grant(state: SessionState, command: MakeGrant, now_ms: int) -> Decision:
    known = state.grants.get(command.grant_id)
    if known is not None:
        if (known.permission, known.pattern) != (command.permission, command.pattern):
            raise InputError(f"the grant id `{command.grant_id}` is taken by another grant", grant_id=command.grant_id)
        return Decision()
    _require_open(state)
    granted = Granted(
        grant_id=command.grant_id,
        permission=command.permission,
        scope="session",
        expires_in_ms=command.expires_in_ms,
        session=state.session_id,
        detail=GrantedDetail(command.pattern, command.reason),
    )
    return Decision((granted,))


def _revoke(state: SessionState, command: Revoke, now_ms: int) -> Decision:
    grant = state.grants.get(command.grant_id)
    if grant is None:
        raise UnknownGrantError(
            f"session `{state.session_id}` has no grant `{command.grant_id}`",
            grant_id=command.grant_id,
            session=state.session_id,
        )
    if grant.revoked_ms is not None:
        return Decision()
    detail = ReasonDetail(command.reason) if command.reason else None
    return Decision((Revoked(grant_id=command.grant_id, detail=detail),))


# --- presence and the input lock ------------------------------------------------------------------------------------


def _connect(state: SessionState, command: Connect, now_ms: int) -> Decision:
    """A connecting client takes a free lock (`betcode.md`, Background)."""
    _require_open(state)
    events: list[Event] = drop_absent(state, command.live)
    lock = _lock_after(state, events)
    if command.client_id not in state.clients or command.client_id not in command.live:
        events.append(ClientConnected(client_id=command.client_id, name=command.name))
    if lock is None:
        events.append(LockTaken(client_id=command.client_id))
    return Decision(tuple(events))


def _lock_after(state: SessionState, events: Iterable[Event]) -> str | None:
    lock = state.lock
    for event in events:
        if isinstance(event, LockPassed):
            lock = event.to
    return lock


def _disconnect(state: SessionState, command: Disconnect, now_ms: int) -> Decision:
    if command.client_id not in state.clients:
        return Decision()
    events: list[Event] = [ClientDisconnected(client_id=command.client_id, cause="left")]
    if state.lock == command.client_id:
        remaining = [client for client in state.clients.values() if client.client_id != command.client_id]
        events.append(lock_after_disconnect(state, remaining))
    return Decision(tuple(events))


def _take_lock(state: SessionState, command: TakeLock, now_ms: int) -> Decision:
    _require_open(state)
    _require_connected(state, command.client_id)
    if state.lock == command.client_id:
        return Decision()
    if state.lock is None:
        return Decision((LockTaken(client_id=command.client_id),))
    if state.lock_request is not None:
        if state.lock_request.client_id == command.client_id:
            return Decision()
        raise NoInputLockError(
            f"client `{state.lock_request.client_id}` has asked for the input lock before; ask again in a moment",
            session=state.session_id,
            holder=state.lock,
        )
    return Decision((LockRequested(client_id=command.client_id, duration_ms=LOCK_REQUEST_MS),))


def _pass_lock(state: SessionState, command: PassLock, now_ms: int) -> Decision:
    _require_open(state)
    _require_connected(state, command.to)
    if state.lock == command.to:
        return Decision()
    if state.lock != command.client_id:
        raise NoInputLockError(
            f"client `{command.client_id}` does not hold the input lock of session `{state.session_id}`",
            session=state.session_id,
            holder=state.lock,
        )
    return Decision((LockPassed(holder=command.client_id, to=command.to, cause="given"),))


def _require_connected(state: SessionState, client_id: str) -> None:
    if client_id not in state.clients:
        raise NoInputLockError(
            f"client `{client_id}` is not connected to session `{state.session_id}`",
            session=state.session_id,
            holder=state.lock,
        )


# --- the end of a request, and what is only noted -------------------------------------------------------------------


def _cancel(state: SessionState, command: Cancel, now_ms: int) -> Decision:
    settled = state.settled.get(command.request_id)
    if settled is not None and settled.outcome == "cancelled":
        return Decision()
    if settled is not None:
        raise AlreadyAnsweredError(
            f"request `{command.request_id}` was already {describe_settled(settled)}",
            request_id=command.request_id,
            session=state.session_id,
            outcome=settled.outcome,
            reply=settled.reply,
            by=settled.by.name,
            at_ms=settled.at_ms,
        )
    if command.request_id not in state.pending:
        raise UnknownRequestError(
            f"session `{state.session_id}` has no request `{command.request_id}`",
            request_id=command.request_id,
            session=state.session_id,
        )
    detail = ReasonDetail(command.reason) if command.reason else None
    return Decision((Cancelled(request_id=command.request_id, cause=command.cause, detail=detail),))


def _require_opened(state: SessionState) -> None:
    """What is only noted may come after the end, but never before the beginning."""
    if state.opened_ms is None:
        raise UnknownSessionError(f"there is no session `{state.session_id}`", session=state.session_id)


def _note_tool(state: SessionState, command: NoteToolFinished, now_ms: int) -> Decision:
    _require_opened(state)
    request = state.find(command.request_id) if command.request_id else None
    as_asked = None if request is None or command.digest is None else request.digest == command.digest
    detail = ToolFinishedDetail(command.input, command.title, command.output)
    finished = ToolFinished(
        request_id=command.request_id,
        call_id=command.call_id,
        ok=command.ok,
        as_asked=as_asked,
        digest=command.digest,
        detail=detail,
    )
    return Decision((finished,))


def _note_notification(state: SessionState, command: NoteNotification, now_ms: int) -> Decision:
    _require_opened(state)
    detail = NotificationDetail(command.text, command.target)
    noted = Notification(
        request_id=command.request_id, service=command.service, result=command.result, detail=detail
    )
    return Decision((noted,))


def _note_regression(state: SessionState, command: NoteRegression, now_ms: int) -> Decision:
    return Decision((LogRegressed(seen_id=command.seen_id, found_id=command.found_id),))


_DECIDERS: dict[type, Callable[[SessionState, Any, int], Decision]] = {
    Open: _open,
    Close: _close,
    Ask: _ask,
    Recheck: _recheck,
    Reply: _reply,
    Release: _release,
    MakeGrant: _grant,
    Revoke: _revoke,
    Connect: _connect,
    Disconnect: _disconnect,
    TakeLock: _take_lock,
    PassLock: _pass_lock,
    Cancel: _cancel,
    NoteToolFinished: _note_tool,
    NoteNotification: _note_notification,
    NoteRegression: _note_regression,
}
