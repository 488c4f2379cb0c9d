"""More time for an attended request, because a person thinks about it: the decision, and the deadline it gives. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.core.durations import spell_duration
from ledger.core.errors import NotExtendableError, StaleReplyError
from ledger.core.events import DeadlineMoved, ExtendReason
from ledger.core.limits import EXTENDED_MS, LEAST_EXTENSION_MS, THINKING_MS
from ledger.core.times import format_time
from ledger.session.commands import Extend
from ledger.session.decision import Decision, overrides_lock, unknown_request
from ledger.session.demands import require_may_answer
from ledger.session.rounds import already_answered
from ledger.session.state import Request, SessionState


def decide_extend(state: SessionState, command: Extend, now_ms: int) -> Decision:
    """Move the deadline of an attended request. Nothing happens where it was already moved as wanted.

    Raises NotExtendableError, UnknownRequestError, AlreadyAnsweredError, StaleReplyError, NoInputLockError,
    DemandNotMetError.
    """
    request = _pending(state, command.request_id)
    require_may_answer(state, request, command.actor, command.role)
    overrides_lock(state, request, command.client_id, is_administrator=command.administrator)
    _require_wanted(state, request, command.reason)
    deadline_ms, latest_ms = request.deadline_ms, latest_deadline_ms(request)
    if deadline_ms is None or latest_ms is None:
        raise _refused(state, request, _has_its_time(request), None)
    if command.seen_ms is not None and deadline_ms >= command.seen_ms + LEAST_EXTENSION_MS:
        return Decision()
    until_ms = min(_wanted_ms(request, command.reason), latest_ms)
    if until_ms < deadline_ms + LEAST_EXTENSION_MS:
        if command.reason != "by_hand":
            return Decision()
        raise _refused(state, request, _bound(request, latest_ms), latest_ms)
    moved = DeadlineMoved(
        request_id=request.request_id, tier="attended", duration_ms=max(until_ms - now_ms, 1), reason=command.reason
    )
    # Written at the deadline or later, it would revive a request that has expired.
    return Decision((moved,), deadline_ms - 1)


def extended(request: Request, reason: ExtendReason, until_ms: int) -> Request:
    """Return a request with a later deadline (server ms), at most the one that this reason may give it."""
    latest_ms = latest_deadline_ms(request)
    if request.deadline_ms is None or request.duration_ms is None or latest_ms is None:
        return request
    until_ms = min(until_ms, _wanted_ms(request, reason), latest_ms)
    gained_ms = max(until_ms - request.deadline_ms, 0)
    return replace(request, deadline_ms=request.deadline_ms + gained_ms, duration_ms=request.duration_ms + gained_ms)


def latest_deadline_ms(request: Request) -> int | None:
    """Return the time (server ms) to which an attended request can be extended; None if it cannot be.

    It ends with the wait that its asker declared, with the session's longest time, and a week after the ask.
    """
    began_ms = _began_ms(request)
    if request.tier != "attended" or began_ms is None:
        return None
    bounds = (began_ms + EXTENDED_MS, request.waits_until_ms, request.cap_at_ms)
    return min(one for one in bounds if one is not None)


def _began_ms(request: Request) -> int | None:
    """Return the time (server ms) of the ask, or of the last reopening, from which an attended request has its time."""
    if request.deadline_ms is None or request.duration_ms is None:
        return None
    return request.deadline_ms - request.duration_ms


def _wanted_ms(request: Request, reason: ExtendReason) -> int:
    """Return the deadline that an act gives, before its bounds: five minutes after the ask, or five minutes more."""
    if reason == "by_hand":
        return (request.deadline_ms or 0) + THINKING_MS
    return (_began_ms(request) or 0) + THINKING_MS


def _pending(state: SessionState, request_id: str) -> Request:
    """Return the pending request. Raises StaleReplyError, AlreadyAnsweredError, UnknownRequestError."""
    settled = state.settled.get(request_id)
    if settled is not None and settled.outcome == "expired":
        raise StaleReplyError("Permission request expired", request_id=request_id, session=state.session_id)
    if settled is not None:
        raise already_answered(state, settled)
    request = state.pending.get(request_id)
    if request is None:
        raise unknown_request(state, request_id)
    return request


def _require_wanted(state: SessionState, request: Request, reason: ExtendReason) -> None:
    """Raise NotExtendableError where the session's setting forbids this kind of extension."""
    extending = state.settings.extending
    if extending == "never" or (extending == "by-hand" and reason != "by_hand"):
        how = "only by hand" if extending == "by-hand" else "not"
        why = f"session `{state.session_id}` has `extending` set to `{extending}`, so its requests are {how} extended"
        raise _refused(state, request, why, None)


def _has_its_time(request: Request) -> str:
    """Return why a request without an attended deadline is not extended."""
    if request.deadline_ms is None:
        return "it has no deadline"
    return (
        f"it is {request.tier} and has until {format_time(request.deadline_ms)}; only an attended request is extended"
    )


def _bound(request: Request, latest_ms: int) -> str:
    """Return which bound an extension would exceed."""
    until = format_time(latest_ms)
    if latest_ms == request.waits_until_ms:
        return f"whoever asked waits until {until} and no longer"
    if latest_ms == request.cap_at_ms:
        return f"the session's longest time for a request ends at {until}"
    return f"it may be extended to {until}, {spell_duration(EXTENDED_MS)} after it was asked, and has that time"


def _refused(state: SessionState, request: Request, why: str, latest_ms: int | None) -> NotExtendableError:
    return NotExtendableError(
        f"request `{request.request_id}` gets no more time: {why}",
        request_id=request.request_id,
        session=state.session_id,
        latest_deadline=None if latest_ms is None else format_time(latest_ms),
    )
