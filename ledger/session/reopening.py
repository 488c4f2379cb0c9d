"""Allows judged again: which are, and the request that is reopened, pending in a new round, or denied. Pure.

An allow by a project's grant counts only while the project's grants allow it.
"""

from __future__ import annotations

from typing import Final

from ledger.core.events import Cancelled, Event, ReopenCause, Reopened, ReopenedDetail
from ledger.core.operands import Operand
from ledger.core.policy import Evaluation, Verdict
from ledger.core.questions import Question
from ledger.project.state import ProjectState
from ledger.session.commands import Live
from ledger.session.state import Request, SessionState, Settled
from ledger.session.tiers import present_clients, tier_of, wanted

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
