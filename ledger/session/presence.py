"""Decisions on connecting and disconnecting clients, and on the input lock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ledger.core.errors import NoInputLockError
from ledger.core.events import (
    ClientConnected,
    ClientDisconnected,
    Event,
    LockPassed,
    LockRequested,
    LockTaken,
    Settings,
)
from ledger.core.limits import LOCK_REQUEST_MS
from ledger.session.commands import Connect, Disconnect, PassLock, TakeLock
from ledger.session.decision import Decision, require_open
from ledger.session.settle import drop_absent, lock_after_disconnect
from ledger.session.state import SessionState
from ledger.session.tiers import records_clients, wanted

LEAST_GAIN_PARTS: Final = 10
"""The parts of an unattended time, one of which is enough to gain."""


def decide_connect(state: SessionState, command: Connect, now_ms: int) -> Decision:
    """Connect a client. Where anyone may answer, that is an event only if it extends an unattended request.

    Where the holder of the input lock answers, every connection is one, and takes a free lock (`betcode.md`,
    Background). Raises PresenceWantedError.
    """
    require_open(state)
    joins = ClientConnected(client_id=command.client_id, name=command.name)
    if not records_clients(state):
        extends = state.pending.gains_time(now_ms, least_gain_ms(state.settings))
        return Decision((joins,) if extends else ())
    live = wanted(command.live)
    events: list[Event] = drop_absent(state, live)
    lock = _lock_after(state, events)
    connected = command.client_id in state.clients and (not live.is_known or command.client_id in live)
    # A lease may have ended and started again without a recorded disconnect.
    if not connected or state.pending.gains_time(now_ms):
        events.append(joins)
    if lock is None:
        events.append(LockTaken(client_id=command.client_id))
    return Decision(tuple(events))


def least_gain_ms(settings: Settings) -> int:
    """Return the least time (ms) that a recorded connection gives an unattended request.

    A tenth of the unattended time, where that is less: otherwise a request with a short time would never be extended.
    """
    if settings.unattended_ms is None:
        return settings.least_gain_ms
    return min(settings.least_gain_ms, settings.unattended_ms // LEAST_GAIN_PARTS)


def _lock_after(state: SessionState, events: Iterable[Event]) -> str | None:
    lock = state.lock
    for event in events:
        if isinstance(event, LockPassed):
            lock = event.to
    return lock


def decide_disconnect(state: SessionState, command: Disconnect, now_ms: int) -> Decision:
    """Disconnect a client. An event only for a recorded client whose input lock others may wait for."""
    if command.client_id not in state.clients or not records_clients(state):
        return Decision()
    events: list[Event] = [ClientDisconnected(client_id=command.client_id, cause="left")]
    if state.lock == command.client_id:
        remaining = [client for client in state.clients.values() if client.client_id != command.client_id]
        events.append(lock_after_disconnect(state, remaining))
    return Decision(tuple(events))


def decide_take_lock(state: SessionState, command: TakeLock, now_ms: int) -> Decision:
    require_open(state)
    _require_lock(state)
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
    _require_lock(state)
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


def _require_lock(state: SessionState) -> None:
    if not records_clients(state):
        raise NoInputLockError(
            f"session `{state.session_id}` has no input lock: anyone may answer (open it with answering `lock-holder`)",
            session=state.session_id,
            holder=None,
        )


def _require_connected(state: SessionState, client_id: str) -> None:
    if client_id not in state.clients:
        raise NoInputLockError(
            f"client `{client_id}` is not connected to session `{state.session_id}`",
            session=state.session_id,
            holder=state.lock,
        )
