"""Decisions on connecting and disconnecting clients, and on the input lock."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.core.errors import (
    NoInputLockError,
)
from ledger.core.events import (
    ClientConnected,
    ClientDisconnected,
    Event,
    LockPassed,
    LockRequested,
    LockTaken,
)
from ledger.core.limits import LOCK_REQUEST_MS
from ledger.session.commands import (
    Connect,
    Disconnect,
    PassLock,
    TakeLock,
)
from ledger.session.decision import Decision, require_open
from ledger.session.settle import drop_absent, lock_after_disconnect
from ledger.session.state import SessionState


def decide_connect(state: SessionState, command: Connect, now_ms: int) -> Decision:
    """Connect a client, which takes a free lock (`betcode.md`, Background).

    A connected client makes an event only if that extends unattended requests: its lease may have ended and started
    again without a recorded disconnect.
    """
    require_open(state)
    events: list[Event] = drop_absent(state, command.live)
    lock = _lock_after(state, events)
    connected = command.client_id in state.clients and command.client_id in command.live
    if not connected or state.pending.gains_time(now_ms):
        events.append(ClientConnected(client_id=command.client_id, name=command.name))
    if lock is None:
        events.append(LockTaken(client_id=command.client_id))
    return Decision(tuple(events))


def _lock_after(state: SessionState, events: Iterable[Event]) -> str | None:
    lock = state.lock
    for event in events:
        if isinstance(event, LockPassed):
            lock = event.to
    return lock


def decide_disconnect(state: SessionState, command: Disconnect, now_ms: int) -> Decision:
    if command.client_id not in state.clients:
        return Decision()
    events: list[Event] = [ClientDisconnected(client_id=command.client_id, cause="left")]
    if state.lock == command.client_id:
        remaining = [client for client in state.clients.values() if client.client_id != command.client_id]
        events.append(lock_after_disconnect(state, remaining))
    return Decision(tuple(events))


def decide_take_lock(state: SessionState, command: TakeLock, now_ms: int) -> Decision:
    require_open(state)
    _require_connected(state, command.client_id)
    if state.lock == command.client_id:
        return Decision()
    if state.lock is None:
        return Decision((LockTaken(client_id=command.client_id),))
    if state.lock_request is not None:
        if state.lock_request.client_id == command.client_id:
            return Decision()
        raise NoInputLockError(
            f"client `{state.lock_request.client_id}` has asked for the input lock before; ask again in a moment",
            session=state.session_id,
            holder=state.lock,
        )
    return Decision((LockRequested(client_id=command.client_id, duration_ms=LOCK_REQUEST_MS),))


def decide_pass_lock(state: SessionState, command: PassLock, now_ms: int) -> Decision:
    require_open(state)
    _require_connected(state, command.to)
    if state.lock == command.to:
        return Decision()
    if state.lock != command.client_id:
        raise NoInputLockError(
            f"client `{command.client_id}` does not hold the input lock of session `{state.session_id}`",
            session=state.session_id,
            holder=state.lock,
        )
    return Decision((LockPassed(holder=command.client_id, to=command.to, cause="given"),))


def _require_connected(state: SessionState, client_id: str) -> None:
    if client_id not in state.clients:
        raise NoInputLockError(
            f"client `{client_id}` is not connected to session `{state.session_id}`",
            session=state.session_id,
            holder=state.lock,
        )
