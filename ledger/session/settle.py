"""Settlement of deadlines, by the expiry worker and before every command, so that no outcome depends on the worker.

Source: `betcode.md`, "Permission Timeout Handling (Tiered Policy)".
"""

from __future__ import annotations

import msgspec

from ledger.core.events import ClientDisconnected, DeadlineMoved, Event, Expired, LockPassed, Presence, Tier
from ledger.core.limits import EVENTS_PER_APPEND_COUNT
from ledger.session.commands import Live
from ledger.session.open_claims import due_claims, ends_unknown
from ledger.session.state import Client, Request, SessionState, longest_connected
from ledger.session.tiers import records_clients


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
    room = max(EVENTS_PER_APPEND_COUNT - len(events), 1)
    present = live.named()
    moves = not present and state.settings.when_abandoned == "move"
    for request in due[:room]:
        ends = _end_or_move(request, now_ms, present, moves=moves)
        if len(ends) > 1 and request.cap_at_ms is not None:
            not_before.append(request.cap_at_ms)
        events += ends
    # What else is due is settled by the next append: claims that have timed out.
    return Settlement(tuple(events), max(not_before), more=len(due) > room or bool(due_claims(state, now_ms, 1)))


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
