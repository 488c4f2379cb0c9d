"""The decision of an ask: evaluation, tier, and the recheck of an allow."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.core.commitments import keyed, same_digest
from ledger.core.errors import DifferentRequestError
from ledger.core.event_shapes import alike
from ledger.core.events import Asked, AskedDetail
from ledger.core.grants import StandingGrant, Taker
from ledger.core.policy import Demand, Evaluation, Verdict
from ledger.core.questions import request_digest
from ledger.core.standing import as_policy_grants, named
from ledger.masks.masking import is_recorded_digest
from ledger.policy.covers import not_accepted, still_asked
from ledger.policy.demands import demands_on
from ledger.policy.stored_rules import home_of
from ledger.session.approvals import askers, binding, grants_for, proofs_of, signed_verdict, that_count
from ledger.session.claims import claim_with_ask, decide_claim, reopened, rests_on_project, wanted_at_claim
from ledger.session.commands import Ask, ClaimCall, Live, Recheck
from ledger.session.deadlines import drop_absent
from ledger.session.decision import (
    Decision,
    has_shared,
    present_clients,
    require_content,
    require_open,
    require_unclaimed,
    standing_grants,
    tier_of,
    until_expiry,
    wanted,
)
from ledger.session.judging import (
    judge_sparingly,
    judging,
    recheckable,
    taker_of,
    uses_of,
    with_effect,
    with_opinions,
)
from ledger.session.state import Request, SessionState


def decide_ask(state: SessionState, command: Ask, now_ms: int) -> Decision:
    known = state.find(command.request_id)
    if known is not None:
        require_content(state.session_id, known)
        _same_content(state, known, command)
        if command.claim is None:
            require_unclaimed(state, command.request_id)
            return Decision()
        return _claim_known(state, command, now_ms)
    require_open(state, request_id=command.request_id)
    call = command.question.call
    taker = Taker(state.session_id, command.request_id)
    standing: Sequence[StandingGrant] = standing_grants(state, command.project, now_ms, taker)
    demands = demands_on(command.policy, call)
    if demands:
        standing = that_count(standing, demands, askers(command.actor, command.owner))
    evaluation, grant_ids = judge_sparingly(state, command.policy, call, taker, standing, judge=judging(command.masks))
    verdict = with_opinions(evaluation.verdict, command.opinions) if command.opinions else evaluation.verdict
    if demands:
        verdict = signed_verdict(verdict, evaluation.verdict, demands)
    if verdict is Verdict.ASK:
        live = wanted(command.live)
        asked = _pending(state, command, evaluation, standing, live=live, demands=demands)
        return Decision((*drop_absent(state, live), asked))
    used = tuple(named(standing, grant_ids)) if grant_ids and verdict is Verdict.ALLOW else ()
    decided = _decided(state, command, evaluation, verdict, used, demands=demands)
    claimed = () if command.claim is None or verdict is Verdict.DENY else claim_with_ask(state, command, decided)
    return Decision((decided, *claimed), until_expiry(used) if used else None)


def _claim_known(state: SessionState, command: Ask, now_ms: int) -> Decision:
    """Claim a request that was asked before, unless its claim must follow a read of the project."""
    settled = state.settled.get(command.request_id)
    if settled is None or settled.outcome != "allowed" or command.claim is None or state.project is not None:
        return Decision()
    question = command.question
    if question.operands is None and wanted_at_claim(state, settled, question):
        return Decision()  # its files must be hashed first
    claiming = alike(ClaimCall, command, runner=command.claim, operands=question.operands)
    return decide_claim(state, claiming, now_ms)


def _decided(
    state: SessionState,
    command: Ask,
    evaluation: Evaluation,
    verdict: Verdict,
    used: tuple[StandingGrant, ...],
    *,
    demands: tuple[Demand, ...],
) -> Asked:
    """Return the events of a request that rules, grants or deciders settle."""
    question, project = command.question, command.project
    call = question.call
    return Asked(
        request_id=command.request_id,
        permission=call.permission,
        verdict=verdict,
        digest=keyed(question.digest, command.salt),
        policy_digest=state.policy_digest,
        project_version=project.version if project else None,
        grants=tuple([grant.grant_id for grant in used]) if used else (),
        uses=uses_of(used, Taker(state.session_id, command.request_id)) if used else (),
        rests_on_project=has_shared(used, project) if used else False,
        tool=question.tool,
        tool_name=call.tool_name,
        agent=question.agent or state.agent,
        parent=question.parent or state.parent,
        token_id=command.token_id,
        detail=_detail(command, evaluation),
        owner=_owner(command, demands),
        demands=demands,
        proofs=proofs_of(demands, used) if demands else (),
    )


def _pending(
    state: SessionState,
    command: Ask,
    evaluation: Evaluation,
    standing: Sequence[StandingGrant],
    *,
    live: Live,
    demands: tuple[Demand, ...],
) -> Asked:
    """Return the events of a request that a person must answer."""
    question, settings = command.question, state.settings
    call = question.call
    tier, duration_ms = tier_of(settings, live)
    return Asked(
        request_id=command.request_id,
        permission=call.permission,
        verdict=Verdict.ASK,
        digest=keyed(question.digest, command.salt),
        policy_digest=state.policy_digest,
        tier=tier,
        duration_ms=duration_ms,
        unattended_ms=settings.unattended_ms,
        cap_ms=settings.cap_ms,
        present=present_clients(live),
        project_version=command.project.version if command.project else None,
        tool=question.tool,
        tool_name=call.tool_name,
        agent=question.agent or state.agent,
        parent=question.parent or state.parent,
        token_id=command.token_id,
        detail=_detail_of_pending(command, evaluation, standing),
        owner=_owner(command, demands),
        demands=demands,
        waits_ms=question.waits_ms,
    )


def _owner(command: Ask, demands: tuple[Demand, ...]) -> str | None:
    """Return the owner of the asker's token; without a token only where a demand depends on the owner."""
    return command.owner if demands or command.token_id is not None else None


def _detail(command: Ask, evaluation: Evaluation, standing: Sequence[StandingGrant] = ()) -> AskedDetail:
    question = command.question
    call = question.call
    offered = (*question.always, *evaluation.always)
    return AskedDetail(
        salt=command.salt,
        patterns=call.patterns,
        always=question.always,
        metadata=question.metadata or {},
        input=call.input,
        cwd=call.cwd,
        home=home_of(command.policy.source),
        evaluation=evaluation,
        opinions=command.opinions,
        not_honoured=not_accepted(command.policy, call, evaluation, offered) if offered else (),
        still_asked=still_asked(command.policy, call, evaluation, question.always, as_policy_grants(standing))
        if question.always
        else (),
        operands=question.operands,
        trace=command.trace,
    )


def _detail_of_pending(command: Ask, evaluation: Evaluation, standing: Sequence[StandingGrant]) -> AskedDetail:
    """Return the stored detail of a pending request, with the choices of what to remember, if any."""
    from ledger.policy.offers import offers  # noqa: PLC0415 - slow to import, and only what waits needs it

    call, always = command.question.call, command.question.always
    detail = _detail(command, with_effect(evaluation, command.question), standing)
    if call.tool_name is None and not always:
        return detail
    return replace(detail, offers=offers(command.policy, call, evaluation, always, as_policy_grants(standing)))


def _same_content(state: SessionState, known: Request, command: Ask) -> None:
    """Raise DifferentRequestError for other content, or another folder."""
    question = command.question
    if is_recorded_digest(question.digest, known.digest, known.salt, command.masks):
        return
    what = "with another content"
    if same_digest(request_digest(question, known.cwd), known.digest, known.salt):
        what = f"{_place(known.cwd)}, not {_place(question.call.cwd)}"
    raise DifferentRequestError(
        f"request `{command.request_id}` of session `{state.session_id}` was asked {what}; use another request id",
        request_id=command.request_id,
        session=state.session_id,
    )


def _place(folder: str | None) -> str:
    return "without a folder" if folder is None else f"in `{folder}`"


def decide_recheck(state: SessionState, command: Recheck, now_ms: int) -> Decision:
    """Judge an allow by a project's grant again: it counts only while that grant is in force (DESIGN)."""
    settled = state.settled.get(command.request_id)
    if settled is None or not rests_on_project(settled):
        return Decision()
    require_content(state.session_id, settled.request)
    question = command.question
    taker = taker_of(state, command.request_id)
    in_force = standing_grants(state, command.project, now_ms, taker)
    standing = recheckable(grants_for(settled.request, in_force, command.policy), taker)
    evaluation, grant_ids = judge_sparingly(
        state, command.policy, question.call, taker, standing, judge=judging(command.masks)
    )
    verdict = with_opinions(evaluation.verdict, settled.request.opinions)
    verdict = signed_verdict(verdict, evaluation.verdict, binding(command.policy, settled.request))
    if verdict is Verdict.ALLOW:
        uses_of(named(standing, grant_ids), taker)
        return Decision()
    events = reopened(
        state,
        settled.request,
        question,
        evaluation=evaluation,
        verdict=verdict,
        cause="grants",
        reason="the grants of the project changed, and no longer allow it",
        project_version=command.project.version,
        live=command.live,
    )
    return Decision(events)
