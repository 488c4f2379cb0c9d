"""Recorded evaluations, judged again from the log alone: rules and grants of then, recorded facts and opinions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from ledger.core.errors import NewerSchemaError
from ledger.core.events import Actor, Asked, AskedDetail, Reopened, Replied, event_type
from ledger.core.grants import Recorded, StandingGrant, Taker
from ledger.core.policy import Call, Evaluation, Policy, PolicySource, Verdict
from ledger.masks.own_input import MASK, holds_mask
from ledger.policy.consulted import NotDecidableError, ReplayedPolicies, overloaded
from ledger.policy.demands import demands_on
from ledger.policy.errors import PolicyError
from ledger.project import ProjectState
from ledger.session.approvals import askers, grants_for, signed_verdict, that_count
from ledger.session.decision import require_readable, standing_grants
from ledger.session.judging import (
    edited_call,
    judge_once,
    judge_sparingly,
    recheckable,
    taker_of,
    unlimited,
    with_opinions,
)
from ledger.session.state import Request, SessionState, call_of, without_facts

JudgedEvent = Asked | Reopened | Replied
JudgedResult = Literal["same", "different", "not_decidable"]
SAME: Final = "same"
DIFFERENT: Final = "different"
NOT_DECIDABLE: Final = "not_decidable"

_NO_DETAIL: Final = "its content is not in the log any more"
_NO_EVALUATION: Final = "it has no evaluation"
_MASKED: Final = "it holds a masked secret, so that what was judged is not in the log"
_REDACTED: Final = "a grant or a request on which it may have rested was redacted"
_NO_RULES: Final = "the rules of that time are not in the log any more"
_NO_PROJECT: Final = "the grants of its project at that time are not known"
_NO_REQUEST: Final = "the request that it concerns is not in the log"


class JudgedAgain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of judging one event again. `reason` says why it is not decidable, or what differs."""

    version: int
    type: str
    request_id: str
    result: JudgedResult
    reason: str | None = None
    recorded: Verdict | None = None
    again: Verdict | None = None


class _Judgement(msgspec.Struct, frozen=True):
    """An evaluation, and the verdict with the deciders' opinions; None where the event's verdict is not the rules'."""

    evaluation: Evaluation
    verdict: Verdict | None = None


def is_judged(recorded: Recorded) -> bool:
    """Return whether an event records an evaluation, or would in this version."""
    match recorded.event:
        case Asked() | Reopened():
            return True
        case Replied(detail=detail):
            return detail is not None and detail.evaluation is not None
        case _:
            return False


def judge_recorded(
    before: SessionState,
    recorded: Recorded,
    project: ProjectState | None,
    policies: ReplayedPolicies,
    rules: PolicySource | None,
) -> JudgedAgain:
    """Judge an event again. `before` is the session just before it, `project` the project as it was judged by.

    `rules` are those of `before`, None where they are redacted, missing or damaged. `recorded` must satisfy `is_judged`.
    """
    event = recorded.event
    assert isinstance(event, Asked | Reopened | Replied)
    then: Evaluation | None = None
    again: _Judgement | None = None
    result: JudgedResult
    reason: str | None
    try:
        then = _evaluation_of(event)
        for at_ms in _times(before, project, recorded):
            again = _judged(before, recorded, then, project, policies, rules=rules, at_ms=at_ms)
            reason = _difference(event, then, again)
            result = SAME if reason is None else DIFFERENT
            if reason is None:
                break
        if reason is not None and _is_redacted(before, project, event):
            result, reason = NOT_DECIDABLE, _REDACTED
    except (NotDecidableError, NewerSchemaError, PolicyError) as unknown:
        result, reason = NOT_DECIDABLE, str(unknown)
    return JudgedAgain(
        version=recorded.version,
        type=event_type(event),
        request_id=event.request_id,
        result=result,
        reason=reason,
        recorded=None if then is None else then.verdict,
        again=None if again is None else again.evaluation.verdict,
    )


def _times(before: SessionState, project: ProjectState | None, recorded: Recorded) -> tuple[int, ...]:
    """Return the server times (ms) at which the event may have been decided, as far as grants tell them apart.

    It was decided after the event before it, and some grant may have expired until it was written.
    """
    known = (*before.grants.values(), *(() if project is None else project.grants.values()))
    is_between = any(
        grant.expires_ms is not None and before.last_ms < grant.expires_ms <= recorded.ms for grant in known
    )
    return (recorded.ms, before.last_ms) if is_between else (recorded.ms,)


def _evaluation_of(event: JudgedEvent) -> Evaluation:
    if event.detail is None:
        raise NotDecidableError(_NO_DETAIL)
    if event.detail.evaluation is None:
        raise NotDecidableError(_NO_EVALUATION)
    return event.detail.evaluation


def _judged(
    before: SessionState,
    recorded: Recorded,
    then: Evaluation,
    project: ProjectState | None,
    policies: ReplayedPolicies,
    *,
    rules: PolicySource | None,
    at_ms: int,
) -> _Judgement:
    event = recorded.event
    assert isinstance(event, Asked | Reopened | Replied)
    require_readable(before)
    if _is_masked(before, event):
        raise NotDecidableError(_MASKED)
    if rules is None:
        raise NotDecidableError(_NO_RULES)
    if event.project_version is not None and project is None:
        raise NotDecidableError(_NO_PROJECT)
    policy = policies.policy(rules, before.policy_digest, then.facts, cwd=before.cwd, home=before.home)
    taker = taker_of(before, event.request_id)
    standing = standing_grants(before, project, at_ms, taker)
    by_all_files = None if then.facts is None else then.facts.too_many
    moment = _Moment(before, policy, taker, by_all_files)
    if isinstance(event, Asked):
        return moment.asked(event, recorded.actor, standing)
    request = before.find(event.request_id)
    if request is None:
        raise NotDecidableError(_NO_REQUEST)
    if request.redacted:
        raise NotDecidableError(_NO_DETAIL)
    call = _call_again(event, request, policy)
    if isinstance(event, Replied):
        # No person's answer rests on a grant with a limit of uses, nor does a stop of a release.
        return _Judgement(moment.judged(call, grants_for(request, unlimited(_with_made(before, event, standing)))))
    counting = grants_for(request, standing, policy)
    again = moment.judged(call, counting)
    if again.verdict is Verdict.ALLOW:
        # When the allow was told again, and not claimed, no new use of a session's own grant could be taken.
        again = moment.judged(call, recheckable(counting, taker))
    return _Judgement(again)


def _is_redacted(before: SessionState, project: ProjectState | None, event: JudgedEvent) -> bool:
    """Return whether a grant or a prerequisite on which the event may have rested is no longer in the log."""
    grants = (*before.grants.values(), *(() if project is None else project.grants.values()))
    firsts = f"{event.request_id}."
    return any(grant.redacted for grant in grants) or any(
        one.request.redacted and one.request.request_id.startswith(firsts) for one in before.settled.values()
    )


def _is_masked(before: SessionState, event: JudgedEvent) -> bool:
    """Return whether the log has a mask in what was judged, or in the recorded evaluation of it."""
    if MASK.search(msgspec.json.encode(event.detail).decode("utf-8", "replace")) is not None:
        return True
    request = before.find(event.request_id)
    return request is not None and holds_mask((request.patterns, request.input))


class _Moment(NamedTuple):
    """The session just before an event about a request, and its rules, by the facts recorded with the event.

    `by_all_files` is the verdict by files that were too many to record.
    """

    before: SessionState
    policy: Policy
    taker: Taker
    by_all_files: Verdict | None

    def judged(self, call: Call, standing: Sequence[StandingGrant]) -> Evaluation:
        evaluation, _ = judge_sparingly(self.before, self.policy, call, self.taker, standing, judge=judge_once)
        return evaluation if self.by_all_files is None else overloaded(evaluation, self.by_all_files)

    def asked(self, event: Asked, asker: Actor, standing: Sequence[StandingGrant]) -> _Judgement:
        detail = event.detail or AskedDetail()
        call = Call(event.permission, detail.patterns, event.tool_name, detail.input, detail.cwd, event.agent)
        demands = demands_on(self.policy, call)
        counting = that_count(standing, demands, askers(asker, event.owner)) if demands else standing
        evaluation = self.judged(call, counting)
        verdict = with_opinions(evaluation.verdict, detail.opinions)
        return _Judgement(evaluation, signed_verdict(verdict, evaluation.verdict, demands))


def _with_made(before: SessionState, event: Replied, standing: Sequence[StandingGrant]) -> Sequence[StandingGrant]:
    """Return the grants; for a request that an answer to another one released, the new grants of that answer first.

    A new grant of a project is in its stream only later.
    """
    cause = event.cause
    answer = None if cause is None or cause.request_id is None else before.settled.get(cause.request_id)
    if answer is None or not answer.grants:
        return standing
    if len(answer.grants) != len(answer.granted_patterns):
        raise NotDecidableError(_NO_DETAIL)
    known = {grant.grant_id: grant for grant in standing}
    made = [
        known[grant_id]
        if grant_id in known
        else StandingGrant(
            grant_id=grant_id,
            permission=answer.request.permission,
            pattern=pattern,
            scope="project",
            by=answer.by,
            at_ms=answer.at_ms,
            version=0,
            request_id=answer.request.request_id,
            proof=answer.proof,
            uses=None if answer.bounds is None else answer.bounds.uses,
        )
        for grant_id, pattern in zip(answer.grants, answer.granted_patterns, strict=True)
    ]
    return [*made, *(grant for grant in standing if grant.grant_id not in answer.grants)]


def _call_again(event: Reopened | Replied, request: Request, policy: Policy) -> Call:
    """Return the call that was judged: the one asked about, or with the input as a person changed it."""
    if isinstance(event, Replied):
        edited = None if event.detail is None else event.detail.input
        return call_of(request) if edited is None else edited_call(policy, request, edited)
    asked_input = None if event.detail is None else event.detail.input
    return Call(request.permission, request.patterns, request.tool_name, asked_input, request.cwd, request.agent)


def _difference(event: JudgedEvent, then: Evaluation, again: _Judgement) -> str | None:
    """Return what differs from the record; None for nothing."""
    if then.verdict is not again.evaluation.verdict:
        return f"the rules said `{then.verdict}`, and judged again they say `{again.evaluation.verdict}`"
    if without_facts(replace(then, effect=None)) != without_facts(again.evaluation):
        return "the verdict is the same, its reasons (parts, rules, texts) are not"
    if isinstance(event, Asked) and event.verdict is not again.verdict:
        return f"the verdict with the deciders' opinions was `{event.verdict}`, and is `{again.verdict}` judged again"
    return None
