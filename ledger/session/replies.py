"""The decision of a reply: who may answer, the grants of the answer, and its cascades. Only one answer counts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.core.errors import (
    AlreadyAnsweredError,
    DigestMismatchError,
    InputError,
    NoInputLockError,
    StaleReplyError,
    UnknownRequestError,
)
from ledger.core.events import (
    Cause,
    Granted,
    GrantedDetail,
    Replied,
    RepliedDetail,
    Scope,
    Settings,
)
from ledger.core.grants import StandingGrant, derived_grant_id, in_force
from ledger.core.policy import Call, Evaluation, ReplyKind
from ledger.session.commands import (
    Release,
    Reply,
)
from ledger.session.decision import Decision, standing_grants, until_expiry
from ledger.session.demands import binding, falls_with_a_reject, proofs_of, require_met
from ledger.session.late_rules import denied_now, edited_call, judge_edit
from ledger.session.state import Request, SessionState, Settled, call_of, in_order
from ledger.session.texts import describe_settled
from ledger.session.verdicts import grants_that_release, lifts_denies
from ledger.session.wanted import wanted_grants


def decide_reply(state: SessionState, command: Reply, now_ms: int) -> Decision:
    command = _within_session(command)
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
    if command.given.digest is not None and command.given.digest != request.digest:
        raise DigestMismatchError(
            f"the answer was given to a request with digest `{command.given.digest}`, but `{request.request_id}` has "
            f"`{request.digest}`; look at it again",
            request_id=request.request_id,
            session=state.session_id,
        )
    if command.given.updated_input is not None:
        _check_edit(request, command)
    require_met(state, request, command, *_calls_answered(request, command))
    override = _check_lock(state, request, command)
    if command.given.reply == "reject":
        return _in_time(command, _reject(state, request, command, override))
    return _in_time(command, _allow(state, request, command, override, now_ms))


def _in_time(command: Reply, decision: Decision) -> Decision:
    """Bound a signed answer's time window by the expiry of its challenge, on the server's clock."""
    if command.given.proof is None:
        return decision
    until_ms = command.given.proof.claims.until_ms
    return Decision(decision.events, min(until_ms, decision.not_after_ms or until_ms))


def _within_session(command: Reply) -> Reply:
    """Limit an answer that the agent's side reports to this session: an agent may not make grants for others."""
    if command.given.told is None or command.given.reply != "always":
        return command
    return replace(command, given=replace(command.given, reply="session"))


def _refuse_unless_same(state: SessionState, settled: Settled, command: Reply) -> None:
    names = {"request_id": command.request_id, "session": state.session_id}
    if settled.outcome == "expired":
        raise StaleReplyError("Permission request expired", **names)
    same_answer = settled.reply == command.given.reply
    same_input = settled.updated_input == command.given.updated_input
    same_words = command.given.reply != "reject" or (settled.message or "") == (command.given.message or "")
    if not (same_answer and same_words and same_input):
        raise AlreadyAnsweredError(
            f"request `{command.request_id}` was already {describe_settled(settled)}",
            **names,
            outcome=settled.outcome,
            reply=settled.reply,
            by=settled.by.name,
            at_ms=settled.at_ms,
            message=settled.message,
        )


def _check_edit(request: Request, command: Reply) -> None:
    """Raise InputError for a changed input with any reply but `once`: no `always` entry was offered for it."""
    if command.given.reply != "once":
        raise InputError(f"a changed input goes with `once` only, not with `{command.given.reply}`")
    if not isinstance(request.input, dict):
        raise InputError(
            f"request `{request.request_id}` is not about a tool's input, so there is none to change",
            request_id=request.request_id,
        )


def _calls_answered(request: Request, command: Reply) -> list[Call]:
    """Return the asked call, and the changed one if the answer changes the input."""
    edited = command.given.updated_input
    return [call_of(request), *([] if edited is None else [edited_call(command.policy, request, edited)])]


def _check_lock(state: SessionState, request: Request, command: Reply) -> bool:
    if state.settings.answering == "anyone" or (
        command.given.client_id is not None and command.given.client_id == state.lock
    ):
        return False
    if command.given.administrator:
        return True
    holder = f"`{state.lock}` holds it" if state.lock else "nobody holds it; connect and take it"
    raise NoInputLockError(
        f"only the client that holds the input lock may answer in session `{state.session_id}`: {holder}",
        request_id=request.request_id,
        session=state.session_id,
        holder=state.lock,
    )


def _reject(state: SessionState, request: Request, command: Reply, override: bool) -> Decision:
    """Reject the request, and the other pending ones in order of asking, without feedback (`opencode-zh.md` 6.2)."""
    message = command.given.message or None
    first = Replied(
        request_id=request.request_id,
        reply="reject",
        outcome="corrected" if message else "rejected",
        client_id=command.given.client_id,
        override=override,
        told=command.given.told,
        proof=command.given.proof,
        detail=RepliedDetail(message) if message else None,
    )
    others = [
        Replied(
            request_id=other.request_id,
            reply="reject",
            outcome="rejected",
            cause=_cascaded(request),
            told=command.given.told,
        )
        for other in in_order(state.pending.values())
        if _falls_with(state.settings, request, other) and falls_with_a_reject(command.policy, other)
    ]
    return Decision((first, *others))


def _falls_with(settings: Settings, request: Request, other: Request) -> bool:
    if other.request_id == request.request_id or settings.cascade_reject == "none":
        return False
    if settings.cascade_reject == "session":
        return True
    if request.tool is None or other.tool is None:
        return False
    return request.tool.message_id == other.tool.message_id


def _cascaded(request: Request) -> Cause:
    return Cause(kind="cascade", request_id=request.request_id)


def _allow(state: SessionState, request: Request, command: Reply, override: bool, now_ms: int) -> Decision:
    """Allow the request and make its grants (`opencode-zh.md` 6.3; `betcode.md`: ALLOW_SESSION creates a grant)."""
    wanted, scope = wanted_grants(state, request, command.given.reply)
    in_project = scope == "project"
    patterns = _without_standing(state, command, request, wanted, in_project=in_project, now_ms=now_ms)
    ids = tuple(derived_grant_id(state.session_id, request.request_id, index) for index in range(len(patterns)))
    # An answer that makes grants needs the project; an answer for one call only where a grant lifts a deny.
    needs_project = scope is not None or lifts_denies(command.policy)
    standing = standing_grants(state, command.project if needs_project else None, now_ms)
    denied, evaluation = _by_rules_of_now(state, request, command, standing)
    replied = Replied(
        request_id=request.request_id,
        reply=command.given.reply,
        outcome="denied" if denied else "allowed",
        scope=None if not patterns else "project" if in_project else "session",
        grants=ids,
        client_id=command.given.client_id,
        override=override,
        told=command.given.told,
        proof=command.given.proof,
        detail=_detail(command, patterns, evaluation),
    )
    if scope is None:
        return Decision((replied,))
    made = [
        _fresh_grant(command, request, grant_id, pattern, scope="project" if in_project else "session", now_ms=now_ms)
        for grant_id, pattern in zip(ids, patterns, strict=True)
    ]
    granted = [] if in_project else [_granted(state, grant) for grant in made]
    # The new grants first, so that a release does not depend on a grant that may be revoked concurrently.
    released, not_after_ms = _released_by(state, command, request, made + standing)
    return Decision((replied, *granted, *released), not_after_ms)


def _by_rules_of_now(
    state: SessionState, request: Request, command: Reply, standing: Sequence[StandingGrant]
) -> tuple[bool, Evaluation | None]:
    """Return whether the current rules deny what this answer allows, and their evaluation if it is to be recorded."""
    if command.given.updated_input is not None:
        return False, judge_edit(state, command.policy, request, command.given.updated_input, standing)
    denial = denied_now(state, command.policy, request, standing)
    return denial is not None, denial


def _without_standing(
    state: SessionState,
    command: Reply,
    request: Request,
    patterns: tuple[str, ...],
    *,
    in_project: bool,
    now_ms: int,
) -> tuple[str, ...]:
    """Return the patterns without an equal grant in the same stream: same permission, without expiry."""
    if not patterns or (in_project and command.project is None):
        return patterns
    grants = command.project.grants if in_project and command.project is not None else state.grants
    standing = {
        one.pattern for one in in_force(grants, now_ms) if one.permission == request.permission and not one.expires_ms
    }
    return tuple(pattern for pattern in patterns if pattern not in standing)


def _detail(command: Reply, patterns: tuple[str, ...], evaluation: Evaluation | None) -> RepliedDetail | None:
    if not patterns and not command.given.message and command.given.updated_input is None and evaluation is None:
        return None
    return RepliedDetail(command.given.message or None, patterns, command.given.updated_input, evaluation)


def _fresh_grant(
    command: Reply, request: Request, grant_id: str, pattern: str, *, scope: Scope, now_ms: int
) -> StandingGrant:
    """Return the grant to be made as state, because the cascade of the same append already uses it."""
    return StandingGrant(
        grant_id=grant_id,
        permission=request.permission,
        pattern=pattern,
        scope=scope,
        by=command.actor,
        at_ms=now_ms,
        version=0,
        request_id=request.request_id,
        proof=command.given.proof,
    )


def _granted(state: SessionState, grant: StandingGrant) -> Granted:
    return Granted(
        grant_id=grant.grant_id,
        permission=grant.permission,
        scope=grant.scope,
        session=state.session_id,
        request_id=grant.request_id,
        proof=grant.proof,
        detail=GrantedDetail(grant.pattern),
    )


def _released_by(
    state: SessionState, command: Reply, request: Request, standing: Sequence[StandingGrant]
) -> tuple[list[Replied], int | None]:
    released: list[Replied] = []
    used: list[StandingGrant] = []
    for other in in_order(state.pending.values()):
        if other.request_id == request.request_id:
            continue
        lifting = grants_that_release(command.policy, other, standing)
        if lifting is None:
            continue
        denial = denied_now(state, command.policy, other, standing)
        if denial is not None:
            released.append(
                replace(_stop(other, command.given.reply, _cascaded(request), denial), told=command.given.told)
            )
            continue
        used += lifting
        release = _release(other, command.given.reply, _cascaded(request), lifting, command)
        released.append(replace(release, told=command.given.told))
    return released, until_expiry(used)


def _stop(request: Request, reply: ReplyKind, cause: Cause, denial: Evaluation) -> Replied:
    """Return the reply for a request that grants would release, but the current rules deny."""
    detail = RepliedDetail(evaluation=denial)
    return Replied(request_id=request.request_id, reply=reply, outcome="denied", cause=cause, detail=detail)


def _release(
    request: Request,
    reply: ReplyKind,
    cause: Cause,
    lifting: Sequence[StandingGrant],
    command: Reply | Release,
) -> Replied:
    project = command.project
    rests = project is not None and any(grant.grant_id in project.grants for grant in lifting)
    return Replied(
        request_id=request.request_id,
        reply=reply,
        outcome="allowed",
        cause=cause,
        rests_on_project=rests,
        project_version=project.version if project is not None and rests else None,
        proofs=proofs_of(binding(command.policy, request), lifting),
    )


def decide_release(state: SessionState, command: Release, now_ms: int) -> Decision:
    """Release the requests that the project's grants now allow, unless the current rules deny them."""
    standing = standing_grants(state, command.project, now_ms)
    released: list[Replied] = []
    used: list[StandingGrant] = []
    for request in in_order(state.pending.values()):
        if command.request_id not in (None, request.request_id):
            continue
        lifting = grants_that_release(command.policy, request, standing)
        if not lifting:
            continue
        cause = Cause(kind="grant", grant_id=lifting[0].grant_id)
        denial = denied_now(state, command.policy, request, standing)
        if denial is not None:
            released.append(_stop(request, "always", cause, denial))
            continue
        used += lifting
        released.append(_release(request, "always", cause, lifting, command))
    return Decision(tuple(released), until_expiry(used))
