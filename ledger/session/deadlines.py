"""Deadlines: their settlement once they have passed, and more time for an attended request while a person thinks. Pure.

They are settled by the expiry worker and before every command, so that no outcome depends on the worker. Source:
`betcode.md`, "Permission Timeout Handling (Tiered Policy)".
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ledger.core.errors import NotExtendableError, StaleReplyError
from ledger.core.events import (
    ClientDisconnected,
    DeadlineMoved,
    Event,
    Expired,
    ExtendReason,
    LockPassed,
    Presence,
    Tier,
)
from ledger.core.limits import EVENTS_PER_APPEND_COUNT, EXTENDED_MS, LEAST_EXTENSION_MS, THINKING_MS
from ledger.core.times import format_time, spell_duration
from ledger.session.approvals import require_may_answer
from ledger.session.commands import Extend, Live
from ledger.session.decision import Decision, already_answered, overrides_lock, records_clients, unknown_request
from ledger.session.open_claims import due_claims, ends_unknown
from ledger.session.state import Client, Request, SessionState, longest_connected


class Settlement(msgspec.Struct, frozen=True):
    """The events of passed deadlines, and the server time (ms) before which they must not be written.

    `more`: not all events fitted into one append.
    """

    events: tuple[Event, ...] = ()
    not_before_ms: int | None = None
    more: bool = False


def needs_presence(state: SessionState, now_ms: int) -> bool:
    """Return whether settling depends on presence, or records it, so that leases must be read first."""
    lock_due = state.lock_request is not None and state.lock_request.due_ms <= now_ms
    request = state.pending.first_due()
    return lock_due or (request is not None and request.deadline_ms is not None and request.deadline_ms <= now_ms)


def settle(state: SessionState, now_ms: int, live: Live) -> Settlement:
    """Return the events of all deadlines up to `now_ms`, with the presence by leases.

    Unknown presence moves an attended request to the unattended tier, and never ends it.
    No events for a session with events of a newer schema, which may have settled a request that looks due.
    """
    if state.newer:
        return Settlement()
    due = state.pending.due(now_ms)
    lock_request = state.lock_request
    lock_due = lock_request is not None and lock_request.due_ms <= now_ms
    if not due and not lock_due:
        return _settle_claims(state, now_ms) if state.open_claims else Settlement()
    events = _dropped(state, live) if lock_due else drop_absent(state, live)
    not_before = [request.deadline_ms for request in due if request.deadline_ms is not None]
    if lock_request is not None and lock_due:
        not_before.append(lock_request.due_ms)
        events += _pass_requested_lock(state, lock_request.client_id, _remaining(state, live))
    left = max(EVENTS_PER_APPEND_COUNT - len(events), 1)
    present = live.named()
    moves = not present and state.settings.when_abandoned == "move"
    for request in due[:left]:
        ends = _end_or_move(request, now_ms, present, moves=moves)
        if len(ends) > 1 and request.cap_at_ms is not None:
            not_before.append(request.cap_at_ms)
        events += ends
    # What else is due is settled by the next append: claims that have timed out.
    return Settlement(tuple(events), max(not_before), more=len(due) > left or bool(due_claims(state, now_ms, 1)))


def _settle_claims(state: SessionState, now_ms: int) -> Settlement:
    """Return the ends of the claims whose timeout has passed."""
    due = due_claims(state, now_ms, EVENTS_PER_APPEND_COUNT)
    if not due:
        return Settlement()
    latest_ms = max(held.at_ms for _, held in due) + state.settings.claim_timeout_ms
    return Settlement(tuple(ends_unknown(due, "claim_timeout")), latest_ms, more=len(due) == EVENTS_PER_APPEND_COUNT)


def drop_absent(state: SessionState, live: Live) -> list[Event]:
    """Return `ClientDisconnected` for every client whose lease has ended, and the change of the input lock.

    Where anyone may answer nothing depends on that, and it is no event. Unknown presence drops nobody.
    """
    return _dropped(state, live) if state.clients and records_clients(state) else []


def _dropped(state: SessionState, live: Live) -> list[Event]:
    remaining = _remaining(state, live)
    present = {client.client_id for client in remaining}
    absent = [client for client in state.clients.values() if client.client_id not in present]
    absent.sort(key=lambda client: client.version)
    events: list[Event] = [ClientDisconnected(client_id=client.client_id, cause="lease") for client in absent]
    if any(client.client_id == state.lock for client in absent):
        events.append(lock_after_disconnect(state, remaining))
    return events


def _remaining(state: SessionState, live: Live) -> list[Client]:
    """Return the recorded clients that are present; all of them where that is unknown."""
    return [client for client in state.clients.values() if not live.is_known or client.client_id in live]


def lock_after_disconnect(state: SessionState, remaining: list[Client]) -> LockPassed:
    """Pass the lock to its requester if still connected, else to the longest-connected client."""
    assert state.lock is not None
    waiting = state.lock_request
    if waiting is not None and any(client.client_id == waiting.client_id for client in remaining):
        return LockPassed(holder=state.lock, to=waiting.client_id, cause="disconnect")
    heir = longest_connected(remaining)
    return LockPassed(holder=state.lock, to=heir.client_id if heir else None, cause="disconnect")


def _pass_requested_lock(state: SessionState, wanted_by: str, remaining: list[Client]) -> list[Event]:
    there = {client.client_id for client in remaining}
    # An absent holder's lock has already passed in drop_absent; a present holder's passes now.
    if state.lock is not None and state.lock in there and wanted_by in there:
        return [LockPassed(holder=state.lock, to=wanted_by, cause="request")]
    return []


def _end_or_move(
    request: Request, now_ms: int, present: tuple[Presence, ...] | None, *, moves: bool
) -> list[DeadlineMoved | Expired]:
    assert request.tier is not None
    assert request.duration_ms is not None
    if request.tier == "unattended" or not moves:
        return [_expired(request, request.tier, request.duration_ms, present)]
    unattended_ms = request.unattended_ms
    moved = DeadlineMoved(request_id=request.request_id, tier="unattended", duration_ms=unattended_ms, present=present)
    # Settled after the cap: a request that is only moved would be due again before this append.
    if unattended_ms is not None and request.cap_at_ms is not None and request.cap_at_ms <= now_ms:
        return [moved, _expired(request, "unattended", unattended_ms, present)]
    return [moved]


def _expired(request: Request, tier: Tier, duration_ms: int, present: tuple[Presence, ...] | None) -> Expired:
    return Expired(request_id=request.request_id, tier=tier, duration_ms=duration_ms, present=present)


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
