"""Decisions on claims: the right of one runner to run an allowed call, once. Pure.

The first claim wins. The same claim again succeeds and writes nothing, so a runner that died before it was told claims
again; any other claim is refused with who and when. A claim whose run has ended, or whose end is unknown, permits no
other run, not even by its own runner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.core.commitments import keyed
from ledger.core.errors import InputError, OperandsWantedError
from ledger.core.events import (
    Asked,
    Cancelled,
    Claimed,
    ClaimReleased,
    Event,
    ReasonDetail,
    ReopenCause,
    Reopened,
    ReopenedDetail,
)
from ledger.core.grants import StandingGrant, Taker
from ledger.core.operands import Operand, WantedOperand, operand_change
from ledger.core.policy import Call, Evaluation, Policy, Verdict, strictest
from ledger.core.questions import Question, Runner, claim_id_of
from ledger.core.standing import named
from ledger.core.times import spell_duration
from ledger.masks.masking import Masks, masked_input
from ledger.policy.operands import operands_wanted
from ledger.project import ProjectState
from ledger.session.approvals import binding, grants_for, signed_verdict, why_too_few
from ledger.session.commands import Ask, ClaimCall, EndClaims, Live, ReleaseClaim
from ledger.session.decision import (
    Decision,
    already_claimed,
    claimed_by,
    has_shared,
    present_clients,
    require_content,
    require_open,
    require_opened,
    standing_grants,
    tier_of,
    unknown_request,
    until_expiry,
    wanted,
)
from ledger.session.judging import (
    changed_link,
    edited_call,
    ignores_late_denies,
    judge,
    judge_sparingly,
    judging,
    taker_of,
    unlimited,
    uses_of,
    with_effect,
    with_opinions,
)
from ledger.session.open_claims import ends_unknown, open_claims
from ledger.session.state import Request, SessionState, Settled, call_of, input_digest


def decide_claim(state: SessionState, command: ClaimCall, now_ms: int) -> Decision:
    """Claim an allowed request, or reopen it. No events for a request with another outcome, and for a repeated claim."""
    settled = state.settled.get(command.request_id)
    if settled is None and command.request_id not in state.pending:
        raise unknown_request(state, command.request_id)
    if settled is None or settled.outcome != "allowed":
        return Decision()
    require_content(state.session_id, settled.request)
    grounds = ClaimGrounds(
        policy=command.policy,
        question=command.question,
        project=command.project,
        operands=command.operands,
        masks=command.masks,
    )
    if is_repeated(state, settled, command.runner):
        _require_still_allowed(state, settled, replace(grounds, operands=None), now_ms)
        return Decision()
    require_open(state, request_id=command.request_id)
    require_operands(state, settled, command.question, command.operands)
    judgement = judge_claim(state, settled, grounds, now_ms, claim_id_of(command.runner))
    if judgement.cause is None:
        return Decision((_claimed(state, settled, command, judgement),), judgement.not_after_ms)
    events = reopened(
        state,
        settled.request,
        command.question,
        evaluation=judgement.evaluation,
        verdict=judgement.verdict,
        cause=judgement.cause,
        reason=judgement.reason,
        project_version=None if command.project is None else command.project.version,
        live=command.live,
        operands=command.operands,
    )
    return Decision(events)


def claim_with_ask(state: SessionState, command: Ask, asked: Asked) -> tuple[Event, ...]:
    """Return the claim of a request in the append of its ask, where nothing rests on a grant of the project."""
    if command.claim is None or asked.rests_on_project:
        return ()
    tool_input = masked_input(command.question.call.input, command.masks)
    claimed = Claimed(
        request_id=command.request_id,
        claim_id=claim_id_of(command.claim),
        runner=command.claim.name,
        policy_digest=state.policy_digest,
        input_digest=_input_digest(tool_input, command.salt),
    )
    return (claimed,)


def is_repeated(state: SessionState, settled: Settled, runner: Runner) -> bool:
    """Return whether this runner holds the claim already; raise AlreadyClaimedError where the call may not be claimed.

    False means that the call is free to be claimed.
    """
    held = settled.claim
    if held is not None and held.status == "open":
        if held.claim_id == claim_id_of(runner):
            return True
        raise already_claimed(state, settled, f"{claimed_by(held)} and may be running", held)
    if held is not None and held.status == "unknown":
        raise already_claimed(
            state, settled, f"{claimed_by(held)}, and the end of its run is not known: it may have run", held
        )
    if settled.finished or settled.request.ran:
        by = "" if held is None else claimed_by(held).removeprefix("was claimed")
        raise already_claimed(state, settled, f"has run already{by}", held)
    return False


def _require_still_allowed(state: SessionState, settled: Settled, grounds: ClaimGrounds, now_ms: int) -> None:
    """Raise AlreadyClaimedError for a claim by a grant of the project that was revoked since it was read for the claim.

    The claim may have been told and the call may be running, so it is not reopened.
    """
    held = settled.claim
    if held is None or held.project_version is None or grounds.project is None:
        return
    if grounds.project.judged_version <= held.project_version <= grounds.project.version:
        return
    if judge_claim(state, settled, grounds, now_ms, held.claim_id).cause is not None:
        raise already_claimed(
            state,
            settled,
            f"{claimed_by(held)}, and the grant that allowed it is no longer in force: it may have run",
            held,
        )


def _claimed(state: SessionState, settled: Settled, command: ClaimCall, judgement: ClaimJudgement) -> Claimed:
    tool_input = settled.updated_input
    if tool_input is None:
        tool_input = masked_input(command.question.call.input, command.masks)
    project = command.project
    return Claimed(
        request_id=command.request_id,
        claim_id=claim_id_of(command.runner),
        runner=command.runner.name,
        round=settled.request.round,
        policy_digest=state.policy_digest,
        input_digest=_input_digest(tool_input, settled.request.salt),
        project_version=project.version if project is not None and has_shared(judgement.used, project) else None,
        uses=judgement.uses,
    )


def _input_digest(tool_input: Any, salt: str) -> str | None:
    """Return the digest of an input that may run, keyed with the salt of its request."""
    return None if tool_input is None else keyed(input_digest(tool_input), salt)


def decide_release_claim(state: SessionState, command: ReleaseClaim, now_ms: int) -> Decision:
    """Release a claim without a recorded end. Raises InputError for an agent that is not the asker."""
    require_opened(state)
    settled = state.settled.get(command.request_id)
    if settled is None and command.request_id not in state.pending:
        raise unknown_request(state, command.request_id)
    held = None if settled is None else settled.claim
    if settled is None or held is None or held.status == "released":
        return Decision()
    if held.status != "open":
        ran = "has run" if held.status == "finished" else "may have run"
        raise already_claimed(state, settled, f"{ran}, so its claim is not given back", held)
    asker = settled.request.asker.name
    if command.actor.kind == "agent" and command.actor.name != asker:
        raise InputError(
            f"agent `{command.actor.name}` did not ask for request `{command.request_id}`; its asker `{asker}` or a "
            "person releases the claim",
            request_id=command.request_id,
            session=state.session_id,
        )
    detail = ReasonDetail(command.reason) if command.reason else None
    return Decision((ClaimReleased(request_id=command.request_id, claim_id=held.claim_id, detail=detail),))


def decide_end_claims(state: SessionState, command: EndClaims, now_ms: int) -> Decision:
    """End the open claims, of all runners or of one, as unknown."""
    require_opened(state)
    ending = ((one, held) for one, held in open_claims(state) if command.runner in (None, held.runner))
    return Decision(tuple(ends_unknown(ending, command.cause)))


def open_claim_of(settled: Settled | None) -> str | None:
    """Return the id of a request's open claim, which a recorded run without a claim's id ends."""
    held = None if settled is None else settled.claim
    return held.claim_id if held is not None and held.status == "open" else None


def key_of_end(state: SessionState, request_id: str | None, claim_id: str) -> str | None:
    """Return the key under which the end of a run is recorded once; None for the end of the request's last claim.

    With a key: the claim was released, or a failover lost it; the call ran all the same. Raises AlreadyClaimedError
    where another claim holds the request, UnknownRequestError.
    """
    request = state.find(request_id or "")
    if request is None:
        raise unknown_request(state, request_id)
    settled = state.settled.get(request.request_id)
    held = None if settled is None else settled.claim
    if settled is not None and held is not None and held.status != "released":
        if held.claim_id == claim_id:
            return None
        if claim_id not in request.released_claims:
            raise already_claimed(state, settled, f"{claimed_by(held)}, not as `{claim_id}`", held)
    return f"{claim_id}:{request.request_id}"


def call_to_run(settled: Settled, question: Question) -> Call:
    """Return the call that may run: as asked, or with the input as a person changed it; in the request's folder."""
    call, edited = question.call, settled.updated_input
    folder = settled.request.cwd if call.cwd is None else call.cwd
    return replace(call, cwd=folder, input=call.input if edited is None else edited)


def wanted_at_claim(state: SessionState, settled: Settled, question: Question) -> tuple[WantedOperand, ...]:
    """Return the files to look at for a claim; none for a request of whose files nothing is known."""
    if settled.request.operands is None:
        return ()
    return operands_wanted(call_to_run(settled, question), state.home)


def require_operands(
    state: SessionState, settled: Settled, question: Question, now: tuple[Operand, ...] | None
) -> None:
    """Raise OperandsWantedError where the files must be hashed again for a claim, and were not."""
    wanted = wanted_at_claim(state, settled, question) if now is None else ()
    if wanted:
        request_id = settled.request.request_id
        raise OperandsWantedError(
            f"the files that request `{request_id}` executes must be hashed again for its claim: send them in `operands`",
            request_id=request_id,
            session=state.session_id,
            wanted=[msgspec.to_builtins(one) for one in wanted],
        )


def changed_operand(settled: Settled, now: tuple[Operand, ...] | None) -> str | None:
    """Return what changed about the files since the approval, in words; None where nothing did."""
    approved = settled.request.operands
    if approved is None or now is None:
        return None
    return operand_change(approved, now, settled.request.cwd, is_edited=settled.updated_input is not None)


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
    if judgement.cause is None or gone.cause is None:
        return judgement
    return replace(judgement, cause=gone.cause, reason=gone.reason)


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


NOBODY: Final = Live()


def reopened(
    state: SessionState,
    request: Request,
    question: Question,
    *,
    evaluation: Evaluation,
    verdict: Verdict,
    cause: ReopenCause,
    reason: str,
    project_version: int | None,
    live: Live | None,
    operands: tuple[Operand, ...] | None = None,
) -> tuple[Event, ...]:
    """Return the events: the request is denied, or pending in its next round, which a closed session cancels at once.

    The time to answer starts again. Raises PresenceWantedError if that depends on leases that were not read. `reason` says to people what changed; `operands` are those
    that the next answer is about, None if they are unchanged.
    """
    is_pending = verdict is Verdict.ASK
    settings = state.settings
    there = wanted(live) if is_pending else NOBODY
    tier, duration_ms = tier_of(settings, there) if is_pending else (None, None)
    if is_pending:
        evaluation = with_effect(evaluation, question)
    event = Reopened(
        request_id=request.request_id,
        verdict=verdict,
        tier=tier,
        duration_ms=duration_ms,
        unattended_ms=settings.unattended_ms if is_pending else None,
        cap_ms=settings.cap_ms if is_pending else None,
        project_version=project_version,
        present=present_clients(there),
        round=request.round + 1 if is_pending else request.round,
        cause=cause,
        detail=ReopenedDetail(evaluation, question.metadata, question.call.input, reason, operands),
    )
    if state.closed_ms is not None and is_pending:
        return event, Cancelled(request_id=request.request_id, cause="session_closed")
    return (event,)


def rests_on_project(settled: Settled) -> bool:
    """Return whether a grant of the project allowed the request, no person answered it, and nobody has claimed it.

    What is claimed may be running, so it is never reopened.
    """
    answered = settled.reply is not None and settled.cause is None
    claimed = settled.claim is not None and settled.claim.status != "released"
    return settled.outcome == "allowed" and settled.request.rests_on_project and not answered and not claimed


def may_change(state: SessionState, request_id: str, *, is_asked: bool) -> bool:
    """Return whether the project's current grants may change the outcome of a request.

    `is_asked`: the request is submitted (again), so that a new grant may release it, and another run follows a finished
    one. A caller that only reads changes neither.
    """
    if request_id in state.pending:
        return is_asked
    settled = state.settled.get(request_id)
    return settled is not None and rests_on_project(settled) and (is_asked or not settled.finished)


def has_changed(state: SessionState, request_id: str, shared: ProjectState, now_ms: int) -> bool:
    """Return whether a grant of the project was made, was revoked or has expired since the request was judged."""
    request = state.find(request_id)
    if request is None:
        return False
    if shared.judged_version > (request.project_version or 0):
        return True
    settled = state.settled.get(request_id)
    since_ms = request.asked_ms if settled is None else settled.at_ms
    return shared.grants.expires_between(since_ms, now_ms)
