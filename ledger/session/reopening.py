"""The reopening of an allowed request: pending again in a new round, or denied. Pure."""

from __future__ import annotations

from typing import Final

from ledger.core.events import Cancelled, Event, ReopenCause, Reopened, ReopenedDetail
from ledger.core.operands import Operand
from ledger.core.policy import Evaluation, Verdict
from ledger.core.questions import Question
from ledger.session.commands import Live
from ledger.session.state import Request, SessionState
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
