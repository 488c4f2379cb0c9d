"""The reopening of an allowed request: pending again in a new round, or denied. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.core.events import Cancelled, Event, Presence, ReopenCause, Reopened, ReopenedDetail, Settings, Tier
from ledger.core.operands import Operand
from ledger.core.policy import Evaluation, Verdict
from ledger.core.questions import Question
from ledger.session.commands import Live
from ledger.session.state import Request, SessionState


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
    live: Live,
    operands: tuple[Operand, ...] | None = None,
) -> tuple[Event, ...]:
    """Return the events: the request is denied, or pending in its next round, which a closed session cancels at once.

    The time to answer starts again. `reason` says to people what changed; `operands` are those
    that the next answer is about, None if they are unchanged.
    """
    is_pending = verdict is Verdict.ASK
    settings = state.settings
    there = present_clients(state, live) if is_pending else ()
    tier, duration_ms = tier_of(settings, there) if is_pending else (None, None)
    event = Reopened(
        request_id=request.request_id,
        verdict=verdict,
        tier=tier,
        duration_ms=duration_ms,
        unattended_ms=settings.unattended_ms if is_pending else None,
        cap_ms=settings.cap_ms if is_pending else None,
        project_version=project_version,
        present=there,
        round=request.round + 1 if is_pending else request.round,
        cause=cause,
        detail=ReopenedDetail(evaluation, question.metadata, question.call.input, reason, operands),
    )
    if state.closed_ms is not None and is_pending:
        return event, Cancelled(request_id=request.request_id, cause="session_closed")
    return (event,)


def present_clients(state: SessionState, live: Live) -> tuple[Presence, ...]:
    """Return the clients that are present by their leases: the session's own, and open inboxes."""
    here = {client.client_id: client.name for client in state.clients.values() if client.client_id in live}
    here.update((one.client_id, one.name) for one in live.inbox)
    return tuple(Presence(client_id, name) for client_id, name in sorted(here.items()))


def tier_of(settings: Settings, present: Sequence[Presence]) -> tuple[Tier, int | None]:
    """Return the tier of a request that becomes pending, and its time (ms; None is without a deadline)."""
    return ("attended", settings.attended_ms) if present else ("unattended", settings.unattended_ms)
