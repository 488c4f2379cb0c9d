"""The decision of an ask: evaluation, tier, and the recheck of an allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ledger.core.errors import (
    DifferentRequestError,
)
from ledger.core.events import (
    Asked,
    AskedDetail,
    Cancelled,
    Presence,
    Reopened,
    ReopenedDetail,
    Settings,
    Tier,
)
from ledger.core.grants import StandingGrant
from ledger.core.policy import Demand, Evaluation, Verdict
from ledger.core.questions import request_digest
from ledger.policy.acceptance import not_accepted, still_asked
from ledger.policy.demands import demands_on
from ledger.policy.offers import offers
from ledger.project.state import ProjectState
from ledger.session.commands import (
    Ask,
    Live,
    Recheck,
)
from ledger.session.decision import Decision, require_open, standing_grants, until_expiry
from ledger.session.demands import askers, grants_for, proofs_of, signed_verdict, that_count
from ledger.session.first import judge
from ledger.session.rechecks import rests_on_project
from ledger.session.settle import drop_absent
from ledger.session.state import Request, SessionState
from ledger.session.verdicts import with_opinions


def decide_ask(state: SessionState, command: Ask, now_ms: int) -> Decision:
    known = state.find(command.request_id)
    if known is not None:
        _same_content(state, known, command)
        return Decision()
    require_open(state, request_id=command.request_id)
    call = command.question.call
    standing = standing_grants(state, command.project, now_ms)
    demands = demands_on(command.policy, call)
    if demands:
        standing = that_count(standing, demands, askers(command.actor.name, command.owner))
    evaluation, grant_ids = judge(state, command.policy, call, command.request_id, standing)
    verdict = with_opinions(evaluation.verdict, command.opinions) if command.opinions else evaluation.verdict
    verdict = signed_verdict(verdict, evaluation.verdict, demands)
    if verdict is Verdict.ASK:
        asked = _pending(state, command, evaluation, standing, demands=demands)
        return Decision((*drop_absent(state, command.live), asked))
    used = tuple([grant for grant in standing if grant.grant_id in grant_ids]) if verdict is Verdict.ALLOW else ()
    decided = _decided(state, command, evaluation, verdict, used, demands=demands)
    return Decision((decided,), until_expiry(used) if used else None)


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
        digest=question.digest,
        policy_digest=state.policy_digest,
        project_version=project.version if project else None,
        grants=tuple([grant.grant_id for grant in used]) if used else (),
        rests_on_project=_has_shared(used, project) if used else False,
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
    demands: tuple[Demand, ...],
) -> Asked:
    """Return the events of a request that a person must answer."""
    question, settings = command.question, state.settings
    call = question.call
    present = _present(state, command.live)
    tier, duration_ms = _tier(settings, present)
    return Asked(
        request_id=command.request_id,
        permission=call.permission,
        verdict=Verdict.ASK,
        digest=question.digest,
        policy_digest=state.policy_digest,
        tier=tier,
        duration_ms=duration_ms,
        unattended_ms=settings.unattended_ms,
        cap_ms=settings.cap_ms,
        present=present,
        project_version=command.project.version if command.project else None,
        tool=question.tool,
        tool_name=call.tool_name,
        agent=question.agent or state.agent,
        parent=question.parent or state.parent,
        token_id=command.token_id,
        detail=_detail_of_pending(command, evaluation, standing),
        owner=_owner(command, demands),
        demands=demands,
    )


def _owner(command: Ask, demands: tuple[Demand, ...]) -> str | None:
    """Return the owner of the asker's token; without a token only where a demand depends on the owner."""
    return command.owner if demands or command.token_id is not None else None


def _detail(command: Ask, evaluation: Evaluation, standing: Sequence[StandingGrant] = ()) -> AskedDetail:
    question = command.question
    call = question.call
    offered = (*question.always, *evaluation.always)
    return AskedDetail(
        patterns=call.patterns,
        always=question.always,
        metadata=question.metadata or {},
        input=call.input,
        cwd=call.cwd,
        evaluation=evaluation,
        opinions=command.opinions,
        not_honoured=not_accepted(command.policy, call, evaluation, offered) if offered else (),
        still_asked=still_asked(
            command.policy, call, evaluation, question.always, [one.as_policy_grant() for one in standing]
        ),
    )


def _detail_of_pending(command: Ask, evaluation: Evaluation, standing: Sequence[StandingGrant]) -> AskedDetail:
    """Return the stored detail of a pending request, with the choices of what to remember, if any."""
    detail = _detail(command, evaluation, standing)
    call, always = command.question.call, command.question.always
    if call.tool_name is None and not always:
        return detail
    grants = [one.as_policy_grant() for one in standing]
    return replace(detail, offers=offers(command.policy, call, evaluation, always, grants))


def _same_content(state: SessionState, known: Request, command: Ask) -> None:
    """Raise DifferentRequestError for other content; older digests, without a folder, are compared without it."""
    question = command.question
    if known.digest == question.digest:
        return
    asked_in, folder = known.cwd, question.call.cwd
    bare = known.digest == request_digest(question, None)
    if bare and asked_in in (None, folder):
        return
    what = "with another content"
    if bare or known.digest == request_digest(question, asked_in):
        what = f"{_place(asked_in)}, not {_place(folder)}"
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
    question = command.question
    standing = grants_for(settled.request, standing_grants(state, command.project, now_ms), command.policy)
    evaluation, _ = judge(state, command.policy, question.call, command.request_id, standing)
    verdict = with_opinions(evaluation.verdict, settled.request.opinions)
    verdict = signed_verdict(verdict, evaluation.verdict, settled.request.demands)
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
        detail=ReopenedDetail(evaluation, question.metadata, question.call.input),
    )
    if state.closed_ms is not None and verdict is Verdict.ASK:
        return Decision((reopened, Cancelled(request_id=command.request_id, cause="session_closed")))
    return Decision((reopened,))


def _has_shared(used: Iterable[StandingGrant], project: ProjectState | None) -> bool:
    return project is not None and any(grant.grant_id in project.grants for grant in used)


def _present(state: SessionState, live: Live) -> tuple[Presence, ...]:
    here = {client.client_id: client.name for client in state.clients.values() if client.client_id in live}
    here.update((one.client_id, one.name) for one in live.inbox)
    return tuple(Presence(client_id, name) for client_id, name in sorted(here.items()))


def _tier(settings: Settings, present: Sequence[Presence]) -> tuple[Tier, int | None]:
    return ("attended", settings.attended_ms) if present else ("unattended", settings.unattended_ms)
