"""The judgement at a claim, right before a call runs: everything is judged again, by the rules and grants of now.

What no longer holds reopens the request: pending again with its reason, or denied. A person's own answer to this very
request stands unless a deny is newer, the answer is too old (`approval_lifetime_ms`), the grant that it made was
revoked or has expired, a link leads elsewhere, or a file that the call executes has changed. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ledger.core.durations import spell_duration
from ledger.core.events import ReopenCause
from ledger.core.grants import StandingGrant, Taker
from ledger.core.operands import Operand
from ledger.core.policy import Evaluation, Policy, Verdict, strictest
from ledger.core.questions import Question
from ledger.core.standing import named
from ledger.masks.masking import Masks
from ledger.project.state import ProjectState
from ledger.session.approvals import why_too_few
from ledger.session.decision import standing_grants, until_expiry
from ledger.session.demands import binding, grants_for, signed_verdict
from ledger.session.first import judge
from ledger.session.late_rules import edited_call, ignores_late_denies
from ledger.session.links import changed_link
from ledger.session.operands import changed_operand
from ledger.session.state import SessionState, Settled, call_of
from ledger.session.uses import judge_sparingly, judging, taker_of, unlimited, uses_of
from ledger.session.verdicts import with_opinions


class ClaimGrounds(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The inputs of a judgement at a claim, besides the session: its rules, its project, and the request as asked.

    `operands` are the files that the call executes, as they are now.
    """

    policy: Policy
    question: Question
    project: ProjectState | None = None
    operands: tuple[Operand, ...] | None = None
    masks: Masks | None = None


class ClaimJudgement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a judgement. `cause` None: the allow holds, until `not_after_ms` (server time).

    Otherwise `verdict` is what becomes of the request, and `reason` says to people what changed. `used` are the grants
    on which the allow rests, and `uses` those of which the claim takes a use.
    """

    evaluation: Evaluation
    verdict: Verdict = Verdict.ALLOW
    cause: ReopenCause | None = None
    reason: str = ""
    used: tuple[StandingGrant, ...] = ()
    uses: tuple[str, ...] = ()
    not_after_ms: int | None = None


def judge_claim(
    state: SessionState, settled: Settled, grounds: ClaimGrounds, now_ms: int, claim_id: str
) -> ClaimJudgement:
    """Judge an allowed request again, as of the server time `now_ms`, for this claim.

    Raises UsesWantedError for uses of the project's grants that are to be taken first.
    """
    judgement = _by_rules(state, settled, grounds, now_ms, claim_id)
    if judgement.cause is not None:
        return judgement
    if change := changed_operand(settled, grounds.operands):
        return ClaimJudgement(evaluation=judgement.evaluation, verdict=Verdict.ASK, cause="operand", reason=change)
    answered = settled.reply is not None and settled.cause is None
    if answered and (change := changed_link(settled.request.links, judgement.evaluation)):
        return ClaimJudgement(evaluation=judgement.evaluation, verdict=Verdict.ASK, cause="link", reason=change)
    return judgement


def _by_rules(
    state: SessionState, settled: Settled, grounds: ClaimGrounds, now_ms: int, claim_id: str
) -> ClaimJudgement:
    settled = _as_asked(settled, grounds.question)
    gone = _why_the_answer_is_gone(state, settled, grounds, now_ms)
    taker = taker_of(state, settled.request.request_id, claim_id)
    standing = grants_for(settled.request, standing_grants(state, grounds.project, now_ms, taker), grounds.policy)
    if gone is None:
        return _with_answer(state, settled, grounds, unlimited(standing))
    judgement = _without_answer(state, settled, grounds, standing, taker)
    return judgement if judgement.cause is None or gone.cause is None else _for(judgement, gone)


def _as_asked(settled: Settled, question: Question) -> Settled:
    """Return a settled request with the content that only its asker and the log have."""
    call = question.call
    request = replace(settled.request, patterns=call.patterns, metadata=question.metadata, input=call.input)
    return replace(settled, request=request)


def _known_grant(state: SessionState, project: ProjectState | None, grant_id: str) -> StandingGrant | None:
    own = state.grants.get(grant_id)
    return project.grants.get(grant_id) if own is None and project is not None else own


class _Gone(msgspec.Struct, frozen=True, gc=False):
    """The reason why no answer of a person lets the call run; `cause` None where nobody answered this request."""

    cause: ReopenCause | None = None
    reason: str = ""


def _why_the_answer_is_gone(state: SessionState, settled: Settled, grounds: ClaimGrounds, now_ms: int) -> _Gone | None:
    """Return None where the own answers of people to this request still stand."""
    if settled.reply is None or settled.cause is not None:
        return _Gone()
    if settled.imported:
        return _Gone("imported", "its answer was read from a file, by an import")
    lifetime_ms = state.settings.approval_lifetime_ms
    if lifetime_ms is not None and now_ms > settled.at_ms + lifetime_ms:
        return _Gone("age", f"it was allowed more than {spell_duration(lifetime_ms)} ago")
    too_few = why_too_few(settled, binding(grounds.policy, settled.request))
    if too_few is not None:
        return _Gone("rules", too_few)
    made = [one for grant_id in settled.grants if (one := _known_grant(state, grounds.project, grant_id)) is not None]
    # A grant that is used up was used by other calls: the person's answer to this one stands.
    if any(grant.has_ended(now_ms) for grant in made):
        return _Gone("grants", f"the grant that its `{settled.reply}` made is no longer in force")
    return None


def _for(judgement: ClaimJudgement, gone: _Gone) -> ClaimJudgement:
    return ClaimJudgement(
        evaluation=judgement.evaluation, verdict=judgement.verdict, cause=gone.cause, reason=gone.reason
    )


def _with_answer(
    state: SessionState, settled: Settled, grounds: ClaimGrounds, standing: Sequence[StandingGrant]
) -> ClaimJudgement:
    """Judge a request that a person answered, and that takes no use: only a deny of now ends it."""
    request, edited, policy = settled.request, settled.updated_input, grounds.policy
    call = call_of(request) if edited is None else edited_call(policy, request, edited)
    evaluation, _ = judge(state, policy, call, request.request_id, standing, masks=grounds.masks)
    if evaluation.verdict is not Verdict.DENY or ignores_late_denies(state, policy):
        lifetime_ms = state.settings.approval_lifetime_ms
        until_ms = None if lifetime_ms is None else settled.at_ms + lifetime_ms
        return ClaimJudgement(evaluation=evaluation, not_after_ms=until_ms)
    if edited is None:
        reason = f"the current rules deny it{_by(evaluation)}"
        return ClaimJudgement(evaluation=evaluation, verdict=Verdict.DENY, cause="rules", reason=reason)
    reason = f"the current rules deny the changed input{_by(evaluation)}"
    asked, _ = judge(state, policy, call_of(request), request.request_id, standing, masks=grounds.masks)
    verdict = strictest((asked.verdict, Verdict.ASK))
    return ClaimJudgement(evaluation=asked, verdict=verdict, cause="edit", reason=reason)


def _without_answer(
    state: SessionState, settled: Settled, grounds: ClaimGrounds, standing: Sequence[StandingGrant], taker: Taker
) -> ClaimJudgement:
    """Judge a request that rules, grants or deciders must allow, as at an ask."""
    request = settled.request
    call, judging_it = call_of(request), judging(grounds.masks)
    evaluation, grant_ids = judge_sparingly(state, grounds.policy, call, taker, standing, judge=judging_it)
    verdict = with_opinions(evaluation.verdict, request.opinions)
    verdict = signed_verdict(verdict, evaluation.verdict, binding(grounds.policy, request))
    if settled.updated_input is not None:
        # The person allowed another input than the rules and grants would.
        verdict = strictest((verdict, Verdict.ASK))
    if verdict is Verdict.ALLOW:
        used = tuple(named(standing, grant_ids))
        uses = uses_of(used, taker)
        return ClaimJudgement(evaluation=evaluation, used=used, uses=uses, not_after_ms=until_expiry(used))
    cause, reason = _what_changed(settled, evaluation, verdict)
    return ClaimJudgement(evaluation=evaluation, verdict=verdict, cause=cause, reason=reason)


def _what_changed(settled: Settled, evaluation: Evaluation, verdict: Verdict) -> tuple[ReopenCause, str]:
    """Return why rules and grants no longer allow a request that nobody answered."""
    if change := changed_link(settled.request.links, evaluation):
        return "link", change
    rested_on_grants = bool(settled.request.grants) or settled.cause is not None
    if rested_on_grants and evaluation.verdict is not Verdict.DENY:
        return "grants", "the grant that allowed it is no longer in force, or lifts less than it did"
    say = "deny it" if verdict is Verdict.DENY else "no longer allow it"
    return "rules", f"the current rules {say}{_by(evaluation)}"


def _by(evaluation: Evaluation) -> str:
    """Return the rules that decided, in parentheses."""
    rules = ", ".join(f"`{text}`" for text in dict.fromkeys(rule.text for rule in evaluation.rules))
    return f" ({rules})" if rules else ""
