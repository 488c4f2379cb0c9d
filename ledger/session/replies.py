"""The decision of a reply: who may answer, the grants of the answer, and its cascades. Only one answer counts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.core.errors import InputError, NotCoveredError, WiderError
from ledger.core.event_shapes import Proof, alike
from ledger.core.events import GrantBounds, Granted, GrantedDetail, Replied, RepliedDetail
from ledger.core.grants import StandingGrant, derived_grant_id
from ledger.core.policy import Demand, Evaluation
from ledger.core.standing import as_policy_grants
from ledger.masks.own_input import check_edit
from ledger.policy.covers import uncovered, wider_entries
from ledger.session.approvals import agreed, approvers_with, binding, falls_with_a_reject, grants_for, require_met
from ledger.session.commands import Reply
from ledger.session.decision import (
    Decision,
    overrides_lock,
    refuse_unless_same,
    require_content,
    require_round,
    standing_grants,
    unknown_request,
    within_session,
)
from ledger.session.judging import denied_now, edited_call, judge_edit, lifts_denies, unlimited
from ledger.session.releases import cascaded, judged_by, released_by
from ledger.session.signed_claims import wanted_grants
from ledger.session.state import Request, SessionState, call_of, in_order
from ledger.session.would_run import quoted


def decide_reply(state: SessionState, command: Reply, now_ms: int) -> Decision:
    given = within_session(command.given)
    if given is not command.given:
        command = replace(command, given=given)
    settled = state.settled.get(command.request_id)
    if settled is not None:
        refuse_unless_same(state, settled, command.given)
        return Decision()
    request = state.pending.get(command.request_id)
    if request is None:
        raise unknown_request(state, command.request_id)
    if command.given.reply != "reject":
        require_content(state.session_id, request)
    require_round(state, request, command.given.digest, command.given.round)
    if command.given.updated_input is not None:
        _check_edit(request, command)
    edited = None if given.updated_input is None else edited_call(command.policy, request, given.updated_input)
    demands = binding(command.policy, request, edited)
    require_met(state, request, command, demands)
    require_grants_only(request, command)
    override = overrides_lock(state, request, command.given.client_id, is_administrator=command.given.administrator)
    if command.given.reply == "reject":
        decision = _reject(state, request, command, override)
    else:
        decision = _allow(state, request, command, demands, override=override, now_ms=now_ms)
    return decision if given.proof is None else _in_time(given.proof, decision)


def _in_time(proof: Proof, decision: Decision) -> Decision:
    """Bound a signed answer's time window by the expiry of its challenge, on the server's clock."""
    until_ms = proof.claims.until_ms
    return Decision(decision.events, min(until_ms, decision.not_after_ms or until_ms))


def _check_edit(request: Request, command: Reply) -> None:
    """Raise InputError for a changed input with any reply but `once`: no `always` entry was offered for it."""
    if command.given.reply != "once":
        raise InputError(f"a changed input goes with `once` only, not with `{command.given.reply}`")
    if not isinstance(request.input, dict):
        raise InputError(
            f"request `{request.request_id}` is not about a tool's input, so there is none to change",
            request_id=request.request_id,
        )
    check_edit(request.input, command.given.updated_input)


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
            cause=cascaded(request),
            told=command.given.told,
        )
        for other in _falling_with(state, request)
        if other.request_id != request.request_id and falls_with_a_reject(command.policy, other)
    ]
    return Decision((first, *others))


def _falling_with(state: SessionState, request: Request) -> list[Request]:
    """Return the requests that a reject of one may end, itself among them, in order of asking."""
    if state.settings.cascade_reject == "none":
        return []
    if state.settings.cascade_reject == "session":
        return in_order(state.pending.values())
    return [] if request.tool is None else state.pending.of_message(request.tool.message_id)


def _allow(
    state: SessionState, request: Request, command: Reply, demands: tuple[Demand, ...], *, override: bool, now_ms: int
) -> Decision:
    """Allow the request and make its grants (`opencode-zh.md` 6.3; `betcode.md`: ALLOW_SESSION creates a grant)."""
    wanted, scope = wanted_grants(state, request, command.given.reply, command.given.patterns)
    in_project = scope == "project"
    patterns = (
        _without_standing(state, command, request, wanted, in_project=in_project, now_ms=now_ms) if wanted else ()
    )
    ids = tuple([derived_grant_id(state.session_id, request.request_id, at) for at, _ in enumerate(patterns)])
    # An answer that makes grants needs the project; an answer for one call only where a grant lifts a deny.
    needs_project = scope is not None or lifts_denies(command.policy)
    standing = standing_grants(state, command.project if needs_project else None, now_ms)
    wider = wider_patterns(state, request, command, standing)
    # A grant with a limit of uses lifts a deny only for a call that takes one, and a person's answer takes none.
    denied, evaluation = _by_rules_of_now(state, request, command, unlimited(standing))
    more_needed = agreed(request, command.given, command.actor, demands) if demands and not denied else None
    if more_needed is not None:
        return Decision(more_needed)
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
        project_version=judged_by(command, evaluation) if needs_project else None,
        bounds=command.given.bounds,
        wider=tuple([grant_id for grant_id, pattern in zip(ids, patterns, strict=True) if pattern in wider]),
        approvers=approvers_with(request, command.actor, demands) if demands and not denied else (),
        detail=_detail(command, patterns, evaluation),
    )
    if scope is None:
        return Decision((replied,))
    bounds = command.given.bounds or GrantBounds()
    # The new grants as state, because the cascade of the same append already uses them.
    made = [
        StandingGrant(
            grant_id=grant_id,
            permission=request.permission,
            pattern=pattern,
            scope="project" if in_project else "session",
            by=command.actor,
            at_ms=now_ms,
            version=0,
            expires_ms=None if bounds.expires_in_ms is None else now_ms + bounds.expires_in_ms,
            request_id=request.request_id,
            proof=command.given.proof,
            uses=bounds.uses,
            wider=pattern in wider,
        )
        for grant_id, pattern in zip(ids, patterns, strict=True)
    ]
    granted = [] if in_project else [_granted(state, grant, bounds, request) for grant in made]
    # The new grants first, so that a release does not depend on a grant that may be revoked concurrently.
    released, not_after_ms = released_by(state, command, request, [*made, *standing], now_ms)
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
    state: SessionState, command: Reply, request: Request, patterns: tuple[str, ...], *, in_project: bool, now_ms: int
) -> tuple[str, ...]:
    """Return the patterns without an equal grant in the same stream: same permission, without bounds."""
    if in_project and command.project is None:
        return patterns
    grants = command.project.grants if in_project and command.project is not None else state.grants
    standing = {
        one.pattern
        for one in grants.about(patterns, now_ms)
        if one.permission == request.permission and one.expires_ms is None and one.uses is None
    }
    return tuple(pattern for pattern in patterns if pattern not in standing)


def _detail(command: Reply, patterns: tuple[str, ...], evaluation: Evaluation | None) -> RepliedDetail | None:
    given = command.given
    if not (patterns or given.message or given.patterns) and given.updated_input is None and evaluation is None:
        return None
    return RepliedDetail(given.message or None, patterns, given.updated_input, evaluation, given.patterns)


def _granted(state: SessionState, grant: StandingGrant, bounds: GrantBounds, request: Request) -> Granted:
    # The digests in a proof are keyed with the request's salt.
    salt = request.salt if grant.proof else ""
    detail = GrantedDetail(grant.pattern, salt=salt)
    return alike(Granted, grant, expires_in_ms=bounds.expires_in_ms, session=state.session_id, detail=detail)


def require_grants_only(request: Request, command: Reply) -> None:
    """Raise InputError for bounds or patterns with an answer that makes no grants."""
    given = command.given
    if given.reply in ("session", "always") or (given.bounds is None and given.patterns is None):
        return
    raise InputError(
        f"`expires`, `uses` and `patterns` bound what an answer remembers, and `{given.reply}` remembers nothing; "
        "answer `session` or `always` with them",
        request_id=request.request_id,
    )


def wider_patterns(
    state: SessionState, request: Request, command: Reply, standing: Sequence[StandingGrant]
) -> frozenset[str]:
    """Return the given patterns that allow more than was offered.

    Raises NotCoveredError where they do not cover the request itself, and WiderError where the person may not widen.
    """
    given = command.given
    if given.patterns is None:
        return frozenset()
    call, offered = call_of(request), offered_entries(request)
    known = as_policy_grants(grants_for(request, unlimited(standing)))
    why = uncovered(command.policy, call, request.always, given.patterns, known)
    where = {"request_id": request.request_id, "session": state.session_id}
    if why is not None:
        raise NotCoveredError(
            f"{_named(given.patterns)} would not allow request `{request.request_id}` itself: {why}; "
            "give a pattern that does, or answer `once`",
            **where,
            patterns=list(given.patterns),
        )
    wider = wider_entries(command.policy, call, offered, given.patterns)
    if wider and not given.may_widen:
        raise WiderError(
            f"{_named(wider)} may allow more than the offered {_named(offered) or 'nothing'}, and only who may grant "
            "can widen an offer; give a narrower pattern, or one of the offered",
            **where,
            patterns=list(wider),
            offered=list(offered),
        )
    return frozenset(wider)


def offered_entries(request: Request) -> tuple[str, ...]:
    """Return the patterns that a pending request offers: its `always`, the call alone, and calls like it without one."""
    reaches = ("exact",) if request.always else ("exact", "kind")
    choices = [one for one in request.offers if one.reach in reaches and not one.wide]
    return tuple(dict.fromkeys([*request.always, *(entry for one in choices for entry in one.entries)]))


def _named(patterns: Sequence[str]) -> str:
    return quoted(patterns, None)
