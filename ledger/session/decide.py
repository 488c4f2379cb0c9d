"""The decider of a session. Pure: its inputs are the state, the command and `now_ms`.

A command with nothing to do makes no events, so that a repeated one is harmless; a refused command raises. `now_ms` is
the writer's estimate of the server's clock: a decision that depends on it has a time window, which the server checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ledger.core.commitments import keyed
from ledger.core.errors import InputError, NoInputLockError, UnknownGrantError
from ledger.core.event_shapes import Notification, NotificationDetail, alike
from ledger.core.events import (
    Cancelled,
    ClientConnected,
    ClientDisconnected,
    Event,
    Granted,
    GrantedDetail,
    LockPassed,
    LockRequested,
    LockTaken,
    LogRegressed,
    PolicyChanged,
    PolicyDetail,
    ReasonDetail,
    Revoked,
    SessionClosed,
    SessionOpened,
    Settings,
    ToolFinished,
    ToolFinishedDetail,
)
from ledger.core.limits import LOCK_REQUEST_MS
from ledger.core.policy import PolicySource, edition_of
from ledger.masks.masking import is_recorded_digest
from ledger.masks.own_input import holds_mask
from ledger.session.asks import decide_ask, decide_recheck
from ledger.session.claims import decide_claim, decide_end_claims, decide_release_claim, key_of_end, open_claim_of
from ledger.session.commands import (
    AnyCommand,
    Ask,
    Cancel,
    ClaimCall,
    Close,
    Connect,
    Disconnect,
    EndClaims,
    Extend,
    Judging,
    MakeGrant,
    NoteNotification,
    NoteRegression,
    NoteToolFinished,
    Open,
    PassLock,
    Recheck,
    Release,
    ReleaseClaim,
    Repeat,
    Reply,
    Resume,
    Revoke,
    TakeLock,
)
from ledger.session.deadlines import decide_extend, drop_absent, lock_after_disconnect
from ledger.session.decision import (
    Decision,
    already_answered,
    decide_repeat,
    records_clients,
    require_open,
    require_opened,
    require_readable,
    require_rules,
    unknown_request,
    wanted,
)
from ledger.session.freezing import decide_resume
from ledger.session.open_claims import ends_unknown, open_claims
from ledger.session.releases import decide_release
from ledger.session.replies import decide_reply
from ledger.session.state import SessionState, in_order, input_digest


def decide(state: SessionState, command: AnyCommand, now_ms: int) -> Decision:
    """Return the decision of a command. Raises an error of `ledger.core.errors` when it is refused."""
    if state.newer:
        require_readable(state)
    if state.rules_redacted and isinstance(command, Judging):
        require_rules(state)
    return _DECIDERS[type(command)](state, command, now_ms)


def decide_open_session(state: SessionState, command: Open, now_ms: int) -> Decision:
    if state.opened_ms is None:
        source = command.policy or PolicySource()
        opened = alike(
            SessionOpened,
            command,
            dialect=source.dialect,
            edition=edition_of(source),
            settings=command.settings or Settings(),
            detail=_detail(command.cwd, command.home),
        )
        return Decision((opened,))
    _same(state, "project", state.project, command.project)
    if state.closed_ms is not None:
        return Decision()
    is_other = command.policy_digest != state.policy_digest or state.rules_redacted
    policy_changes = command.policy is not None and is_other
    settings = command.settings or state.settings
    if not policy_changes and settings == state.settings:
        return Decision()
    if not policy_changes:
        require_rules(state)
    spoken = command.policy or state.language
    changed = PolicyChanged(
        dialect=spoken.dialect,
        edition=edition_of(spoken),
        policy_digest=command.policy_digest if policy_changes else state.policy_digest,
        policy_source=command.policy_source if policy_changes else state.policy_source,
        settings=settings,
        detail=_detail(command.cwd or state.cwd, command.home or state.home),
    )
    return Decision((changed,))


def _detail(cwd: str | None, home: str | None) -> PolicyDetail | None:
    return None if cwd is None and home is None else PolicyDetail(cwd, home)


def _same(state: SessionState, what: str, has: str | None, wanted: str | None) -> None:
    if wanted is not None and wanted != has:
        raise InputError(
            f"session `{state.session_id}` has {what} `{has or 'none'}`, not `{wanted}`; use another session id",
            session=state.session_id,
        )


def decide_close(state: SessionState, command: Close, now_ms: int) -> Decision:
    if state.closed_ms is not None:
        return Decision()
    require_open(state)
    cancelled = [
        Cancelled(request_id=request.request_id, cause="session_closed") for request in in_order(state.pending.values())
    ]
    ended = ends_unknown(open_claims(state), "session_closed")
    closed = SessionClosed(detail=ReasonDetail(command.reason) if command.reason else None)
    return Decision((*cancelled, *ended, closed))


def decide_grant(state: SessionState, command: MakeGrant, now_ms: int) -> Decision:
    known = state.grants.get(command.grant_id)
    if known is not None:
        if (known.permission, known.pattern) != (command.permission, command.pattern):
            raise InputError(f"the grant id `{command.grant_id}` is taken by another grant", grant_id=command.grant_id)
        return Decision()
    require_open(state)
    detail = GrantedDetail(command.pattern, command.reason)
    return Decision((alike(Granted, command, scope="session", session=state.session_id, detail=detail),))


def decide_revoke(state: SessionState, command: Revoke, now_ms: int) -> Decision:
    grant = state.grants.get(command.grant_id)
    if grant is None:
        raise UnknownGrantError(
            f"session `{state.session_id}` has no grant `{command.grant_id}`",
            grant_id=command.grant_id,
            session=state.session_id,
        )
    if grant.revoked_ms is not None:
        return Decision()
    detail = ReasonDetail(command.reason) if command.reason else None
    return Decision((Revoked(grant_id=command.grant_id, detail=detail),))


def decide_cancel(state: SessionState, command: Cancel, now_ms: int) -> Decision:
    settled = state.settled.get(command.request_id)
    if settled is not None and settled.outcome == "cancelled":
        return Decision()
    if settled is not None:
        raise already_answered(state, settled)
    if command.request_id not in state.pending:
        raise unknown_request(state, command.request_id)
    detail = ReasonDetail(command.reason) if command.reason else None
    return Decision((Cancelled(request_id=command.request_id, cause=command.cause, detail=detail),))


def decide_note_tool_finished(state: SessionState, command: NoteToolFinished, now_ms: int) -> Decision:
    require_opened(state)
    settled = state.settled.get(command.request_id) if command.request_id else None
    key, claim_id = command.key, command.claim_id
    if claim_id is None:
        claim_id = open_claim_of(settled)
    else:
        late_key = key_of_end(state, command.request_id, claim_id)
        key = late_key or key
        if (
            late_key is None
            and settled is not None
            and settled.claim is not None
            and settled.claim.status == "finished"
        ):
            return Decision()
    if key is not None and key in state.noted:
        return Decision()
    detail = ToolFinishedDetail(command.input, command.title, command.output, salt=command.salt)
    is_empty = command.digest is None and detail == ToolFinishedDetail(salt=command.salt)
    finished = ToolFinished(
        request_id=command.request_id,
        call_id=command.call_id,
        ok=command.ok,
        as_asked=_as_asked(state, command),
        digest=_digest_of_run(state, command),
        key=key,
        claim_id=claim_id,
        detail=None if is_empty else detail,
    )
    return Decision((finished,))


def _digest_of_run(state: SessionState, command: NoteToolFinished) -> str | None:
    """Return the digest of the call that ran as the log has it, where the call or its request has a masked secret."""
    if command.digest is None:
        return None
    digest = keyed(command.digest, command.salt)
    known = state.find(command.request_id or "")
    is_masked = holds_mask((command.input, None if known is None else (known.patterns, known.metadata)))
    return digest if command.masks is None or not is_masked else command.masks.digest(digest)


def _as_asked(state: SessionState, command: NoteToolFinished) -> bool | None:
    """Return whether the call ran as asked, or as a person changed it; None where that is unknown."""
    settled = state.settled.get(command.request_id) if command.request_id else None
    if settled is None or settled.request.redacted:
        return None
    if command.digest is not None:
        known = settled.request
        return is_recorded_digest(command.digest, known.digest, known.salt, command.masks)
    if command.input is None or settled.input_digest is None:
        return None
    if settled.updated_input is not None:
        return bool(command.input == settled.updated_input)
    return settled.input_digest == input_digest(command.input)


def decide_note_notification(state: SessionState, command: NoteNotification, now_ms: int) -> Decision:
    require_opened(state)
    return Decision((alike(Notification, command, detail=NotificationDetail(command.text, command.target)),))


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


_DECIDERS: dict[type, Callable[[SessionState, Any, int], Decision]] = {
    Open: decide_open_session,
    Close: decide_close,
    Ask: decide_ask,
    Recheck: decide_recheck,
    ClaimCall: decide_claim,
    ReleaseClaim: decide_release_claim,
    EndClaims: decide_end_claims,
    Reply: decide_reply,
    Repeat: lambda state, command, _: decide_repeat(state, command),
    Release: decide_release,
    Resume: decide_resume,
    MakeGrant: decide_grant,
    Revoke: decide_revoke,
    Connect: decide_connect,
    Disconnect: decide_disconnect,
    TakeLock: decide_take_lock,
    PassLock: decide_pass_lock,
    Extend: decide_extend,
    Cancel: decide_cancel,
    NoteToolFinished: decide_note_tool_finished,
    NoteNotification: decide_note_notification,
    NoteRegression: lambda _, command, __: Decision(
        (LogRegressed(seen_id=command.seen_id, found_id=command.found_id),)
    ),
}
