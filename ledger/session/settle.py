"""What is due: the same function for the expiry worker and for every command, so a dead worker changes no outcome.

Source: `betcode.md`, "Permission Timeout Handling (Tiered Policy)".
"""

from __future__ import annotations

import msgspec

from ledger.core.events import (
    ClientDisconnected,
    DeadlineMoved,
    Event,
    Expired,
    LockPassed,
)
from ledger.core.limits import EVENTS_PER_APPEND_COUNT
from ledger.session.commands import Live
from ledger.session.state import Client, Request, SessionState, in_order, longest_connected


class Settlement(msgspec.Struct, frozen=True):
    """Events for what is due, and the server time (ms) before which they must not be written.

    `more` says that not everything fitted into one append.
    """

    events: tuple[Event, ...] = ()
    not_before_ms: int | None = None
    more: bool = False


def due_requests(state: SessionState, now_ms: int) -> list[Request]:
    """Pending requests whose deadline has come, in order of asking."""
    return in_order(
        request
        for request in state.pending.values()
        if request.deadline_ms is not None and request.deadline_ms <= now_ms
    )


def needs_presence(state: SessionState, now_ms: int) -> bool:
    """Whether settling depends on who is really there, so that leases must be read first."""
    if not state.clients:
        return False
    lock_due = state.lock_request is not None and state.lock_request.due_ms <= now_ms
    return lock_due or bool(due_requests(state, now_ms))


def settle(state: SessionState, now_ms: int, live: Live) -> Settlement:
    """The events for everything that is due at `now_ms`, given who is there by the leases.

    Nothing where events of a newer schema were met: they may have ended what looks due here.
    """
    if state.newer:
        return Settlement()
    due = due_requests(state, now_ms)
    lock_request = state.lock_request
    lock_due = lock_request is not None and lock_request.due_ms <= now_ms
    if not due and not lock_due:
        return Settlement()
    events = list(drop_absent(state, live))
    remaining = [client for client in state.clients.values() if client.client_id in live]
    not_before = [request.deadline_ms for request in due if request.deadline_ms is not None]
    if lock_request is not None and lock_due:
        not_before.append(lock_request.due_ms)
        events += _pass_requested_lock(state, lock_request.client_id, remaining)
    room = max(EVENTS_PER_APPEND_COUNT - len(events), 1)
    moves = not remaining and state.settings.when_abandoned == "move"
    for request in due[:room]:
        ends = _end_or_move(request, now_ms, moves=moves)
        if len(ends) > 1 and request.cap_at_ms is not None:
            not_before.append(request.cap_at_ms)
        events += ends
    return Settlement(tuple(events), max(not_before), more=len(due) > room)


def drop_absent(state: SessionState, live: Live) -> list[Event]:
    """`Disconnected(lease)` for every client that was not heard of, and what becomes of the input lock."""
    absent = [client for client in state.clients.values() if client.client_id not in live]
    absent.sort(key=lambda client: client.version)
    events: list[Event] = [ClientDisconnected(client_id=client.client_id, cause="lease") for client in absent]
    if any(client.client_id == state.lock for client in absent):
        remaining = [client for client in state.clients.values() if client.client_id in live]
        events.append(lock_after_disconnect(state, remaining))
    return events


def lock_after_disconnect(state: SessionState, remaining: list[Client]) -> LockPassed:
    """The lock goes to whoever asked for it and is still there, else to the longest-connected client."""
    assert state.lock is not None
    waiting = state.lock_request
    if waiting is not None and any(client.client_id == waiting.client_id for client in remaining):
        return LockPassed(holder=state.lock, to=waiting.client_id, cause="disconnect")
    heir = longest_connected(remaining)
    return LockPassed(holder=state.lock, to=heir.client_id if heir else None, cause="disconnect")


def _pass_requested_lock(state: SessionState, wanted_by: str, remaining: list[Client]) -> list[Event]:
    there = {client.client_id for client in remaining}
    # A holder that is gone has already handed the lock over in drop_absent; one that is there gives it up now.
    if state.lock is not None and state.lock in there and wanted_by in there:
        return [LockPassed(holder=state.lock, to=wanted_by, cause="request")]
    return []


def _end_or_move(request: Request, now_ms: int, *, moves: bool) -> list[Event]:
    assert request.tier is not None
    assert request.duration_ms is not None
    if request.tier == "unattended" or not moves:
        return [Expired(request_id=request.request_id, tier=request.tier, duration_ms=request.duration_ms)]
    unattended_ms = request.unattended_ms
    moved = DeadlineMoved(request_id=request.request_id, tier="unattended", duration_ms=unattended_ms)
    # Settled so late that the cap has passed: left as moved, it would be due again before this very append.
    if unattended_ms is not None and request.cap_at_ms is not None and request.cap_at_ms <= now_ms:
        return [moved, Expired(request_id=request.request_id, tier="unattended", duration_ms=unattended_ms)]
    return [moved]
