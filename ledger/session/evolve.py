"""The fold of a session's events. Pure and total: an event in the log is a fact and is never refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.codec import NewerEvent
from ledger.core.event_shapes import alike
from ledger.core.events import (
    Actor,
    Agreed,
    Asked,
    AskedDetail,
    Cancelled,
    Claimed,
    ClaimReleased,
    ClientConnected,
    ClientDisconnected,
    DeadlineMoved,
    EndUnknown,
    Expired,
    Granted,
    Imported,
    LockPassed,
    LockRequested,
    LockTaken,
    Outcome,
    PolicyChanged,
    Presence,
    Redacted,
    Reopened,
    Replied,
    Revoked,
    SessionClosed,
    SessionOpened,
    Tier,
    ToolFinished,
)
from ledger.core.freezes import FREEZE
from ledger.core.grants import Recorded, add_granted, mark_imported, mark_redacted, mark_revoked
from ledger.core.limits import RECORDED_CLIENTS_COUNT
from ledger.core.policy import Verdict
from ledger.session.brief import fill_in
from ledger.session.deadlines import extended
from ledger.session.judging import digest_behind, links_of
from ledger.session.open_claims import (
    fold_claimed,
    fold_end_unknown,
    fold_finished,
    fold_released,
    with_uses_taken,
    without_claim,
    without_open_claims,
)
from ledger.session.state import (
    REQUEST_OF_ASKED,
    REQUEST_OF_DETAIL,
    Agreement,
    Client,
    LockRequest,
    Request,
    SessionState,
    Settled,
    input_digest,
    without_facts,
)
from ledger.session.would_run import summary_of


def evolve(state: SessionState, recorded: Recorded) -> SessionState:
    """Return the state after `recorded`, the event of version `state.version + 1`."""
    event = recorded.event
    step = _STEPS.get(type(event))
    if step is not None:
        state = step(state, recorded, event)
    if state.version == recorded.version:
        return state
    return replace(state, version=recorded.version, last_ms=recorded.ms)


def _opened(state: SessionState, recorded: Recorded, event: SessionOpened) -> SessionState:
    opened = replace(
        state,
        opened_ms=recorded.ms,
        project=event.project,
        agent=event.agent,
        parent=event.parent,
        token_id=event.token_id,
    )
    return _with_policy(opened, recorded, event)


def _with_policy(state: SessionState, recorded: Recorded, event: SessionOpened | PolicyChanged) -> SessionState:
    return replace(
        state,
        dialect="" if recorded.redacted else event.dialect,
        edition=event.edition,
        cwd=event.detail.cwd if event.detail else None,
        home=event.detail.home if event.detail else None,
        policy_digest=event.policy_digest,
        policy_source=event.policy_source,
        rules_version=recorded.version,
        rules_redacted=recorded.redacted,
        settings=event.settings,
    )


_WITHOUT_DETAIL: Final = AskedDetail()


def _asked(state: SessionState, recorded: Recorded, event: Asked) -> SessionState:
    if event.brief:
        # Readers have filled it in already: a request must not lack its deadline because one of them did not.
        fill_in(event, state)
    detail = event.detail or _WITHOUT_DETAIL
    cap_at_ms = None if event.cap_ms is None else recorded.ms + event.cap_ms
    is_pending = event.verdict is Verdict.ASK
    tier = (event.tier or "unattended") if is_pending else None
    duration_ms = event.duration_ms if is_pending else None
    # In the order of the members of `Request`, whose names a test compares.
    members: tuple[Any, ...] = (
        event.request_id,
        event.permission,
        event.digest,
        recorded.version,
        recorded.ms,
        recorded.actor,
        *REQUEST_OF_ASKED(event),
        *REQUEST_OF_DETAIL(detail),
        recorded.redacted,
        state.cwd if detail.cwd is None and not recorded.redacted else detail.cwd,
        without_facts(detail.evaluation),
        links_of(detail.evaluation),
        tier,
        duration_ms,
        None if duration_ms is None else deadline_ms(recorded.ms, tier, duration_ms, cap_at_ms),
        cap_at_ms,
        None if event.waits_ms is None else recorded.ms + event.waits_ms,
    )
    request = Request(*members)
    if event.uses:
        state = with_uses_taken(state, recorded, request, event.uses)
    if not is_pending:
        outcome: Outcome = "allowed" if event.verdict is Verdict.ALLOW else "denied"
        kept, asked_input = _without_bulk(request)
        by, at_ms, version = recorded.actor, recorded.ms, recorded.version
        return _with_outcome(state, Settled(kept, outcome, by, at_ms, version, asked_input, event.proofs))
    if event.present:
        state = _with_present(state, recorded, event.present)
    # Includes the members that `evolve` would set, which saves a copy of the state.
    pending = state.pending.insert(request.request_id, request)
    return replace(state, pending=pending, version=recorded.version, last_ms=recorded.ms)


def _reopened(state: SessionState, recorded: Recorded, event: Reopened) -> SessionState:
    settled = state.settled.get(event.request_id)
    if settled is None:
        return state
    state = without_claim(state, event.request_id)
    detail = event.detail
    request = replace(
        settled.request,
        redacted=settled.request.redacted or recorded.redacted,
        # Logs without rounds have 1 in every event; a round never goes back.
        round=max(event.round, settled.request.round),
        reopened_for=event.cause or "grants",
        reopened_reason=detail.reason if detail else None,
        reopened_versions=(*settled.request.reopened_versions, recorded.version),
        evaluation=without_facts(detail.evaluation) if detail else None,
        links=links_of(detail.evaluation) if detail else None,
        metadata=detail.metadata if detail else {},
        input=detail.input if detail else None,
        operands=detail.operands if detail and detail.operands is not None else settled.request.operands,
        project_version=event.project_version,
        grants=(),
        agreed=(),
        rests_on_project=False,
        unattended_ms=event.unattended_ms,
        # The time to answer starts again: nobody could answer while the request counted as allowed.
        cap_at_ms=None if event.cap_ms is None else recorded.ms + event.cap_ms,
        present=event.present,
    )
    if event.verdict is Verdict.DENY:
        return _settle(state, recorded, request, outcome="denied")
    request = _timed(request, recorded.ms, event.tier or "unattended", event.duration_ms)
    state = _with_present(state, recorded, event.present)
    return replace(
        state, settled=state.settled.remove(event.request_id), pending=state.pending.insert(event.request_id, request)
    )


def _agreed(state: SessionState, recorded: Recorded, event: Agreed) -> SessionState:
    """Add a yes to a pending request; the last one of a person replaces their earlier ones."""
    request = state.pending.get(event.request_id)
    if request is None or event.round != request.round:
        return state
    message = event.detail.message if event.detail else None
    agreement = alike(Agreement, event, by=recorded.actor, at_ms=recorded.ms, version=recorded.version, message=message)
    name = recorded.actor.name.casefold()
    others = tuple([one for one in request.agreed if one.by.name.casefold() != name])
    request = replace(request, agreed=(*others, agreement), redacted=request.redacted or recorded.redacted)
    return replace(state, pending=state.pending.insert(event.request_id, request), answered_ms=recorded.ms)


def _replied(state: SessionState, recorded: Recorded, event: Replied) -> SessionState:
    request = state.pending.get(event.request_id)
    if request is None:
        return state
    detail = event.detail
    if event.outcome == "denied" and detail is not None:
        request = replace(request, evaluation=without_facts(detail.evaluation))
    if event.cause is not None and event.cause.kind == "unfrozen":
        # The opinion of the freeze ended with it; later judgements must not find it.
        request = replace(request, opinions=tuple(one for one in request.opinions if one.decider != FREEZE))
    if detail is not None and detail.input is not None:
        request = replace(request, links=links_of(detail.evaluation))
    if event.uses:
        state = with_uses_taken(state, recorded, request, event.uses)
        request = replace(request, uses=event.uses)
    if recorded.redacted:
        request = replace(request, redacted=True)
    if event.rests_on_project:
        request = replace(request, rests_on_project=True, project_version=event.project_version)
    if event.is_own:
        state = replace(state, answered_ms=recorded.ms)
    return _settle(
        state,
        recorded,
        request,
        outcome=event.outcome,
        reply=event.reply,
        message=detail.message if detail else None,
        cause=event.cause,
        told=event.told,
        grants=event.grants,
        granted_patterns=detail.patterns if detail else (),
        edited_patterns=detail.edited if detail else None,
        updated_input=detail.input if detail else None,
        granted_to_project=event.scope == "project",
        bounds=event.bounds,
        wider=event.wider,
        proof=event.proof,
        proofs=event.proofs,
        approvers=event.approvers,
    )


def _expired(state: SessionState, recorded: Recorded, event: Expired) -> SessionState:
    request = state.pending.get(event.request_id)
    if request is None:
        return state
    return _settle(state, recorded, replace(request, duration_ms=event.duration_ms), outcome="expired")


def _cancelled(state: SessionState, recorded: Recorded, event: Cancelled) -> SessionState:
    request = state.pending.get(event.request_id)
    if request is None:
        return state
    reason = event.detail.reason if event.detail else None
    return _settle(state, recorded, request, outcome="cancelled", cancel_cause=event.cause, message=reason)


def _settle(state: SessionState, recorded: Recorded, request: Request, **how: Any) -> SessionState:
    kept, asked_input = _without_bulk(request)
    settled = Settled(
        request=kept, by=recorded.actor, at_ms=recorded.ms, version=recorded.version, input_digest=asked_input, **how
    )
    return _with_outcome(state, settled)


def _without_bulk(request: Request) -> tuple[Request, str | None]:
    """Return a request as it is kept once it is settled, and the digest of its input.

    It keeps its proof and reasons; the bulk (metadata, input, offers) is only in the log.
    """
    asked_input = None if request.input is None else input_digest(request.input)
    if request.metadata or request.input is not None:
        asked_input = asked_input or digest_behind(request)
        request = replace(request, metadata={}, input=None, summary=summary_of(request))
    if request.offers:
        request = replace(request, offers=())
    return request, asked_input


def _with_outcome(state: SessionState, settled: Settled) -> SessionState:
    request_id = settled.request.request_id
    if state.open_claims:
        state = without_claim(state, request_id)
    return replace(
        state,
        pending=state.pending.discard(request_id),
        settled=state.settled.insert(request_id, settled),
        # The members that `evolve` would set, which saves a copy of the state.
        version=settled.version,
        last_ms=settled.at_ms,
    )


def _deadline_moved(state: SessionState, recorded: Recorded, event: DeadlineMoved) -> SessionState:
    request = state.pending.get(event.request_id)
    if request is None:
        return state
    if event.reason is not None and event.duration_ms is not None:
        moved = extended(request, event.reason, recorded.ms + event.duration_ms)
    else:
        moved = _timed(request, recorded.ms, event.tier, event.duration_ms)
    return replace(state, pending=state.pending.insert(event.request_id, moved))


def _timed(request: Request, from_ms: int, tier: Tier, duration_ms: int | None) -> Request:
    ends_ms = deadline_ms(from_ms, tier, duration_ms, request.cap_at_ms)
    return replace(request, tier=tier, duration_ms=duration_ms, deadline_ms=ends_ms)


def deadline_ms(from_ms: int, tier: Tier | None, duration_ms: int | None, cap_at_ms: int | None) -> int | None:
    """Return the deadline of a request that has its time from `from_ms` on; None without one."""
    if duration_ms is None:
        return None
    ends_ms = from_ms + duration_ms
    return min(ends_ms, cap_at_ms) if tier == "unattended" and cap_at_ms is not None else ends_ms


def _connected(state: SessionState, recorded: Recorded, event: ClientConnected) -> SessionState:
    """Add a client, and give unattended requests their full time again (`betcode.md`, activity extends TTL)."""
    pending = state.pending
    for request in state.pending.values():
        if request.tier == "unattended":
            again = _timed(request, recorded.ms, "unattended", request.unattended_ms)
            pending = pending.insert(request.request_id, again)
    client = Client(event.client_id, event.name, recorded.ms, recorded.version)
    return replace(state, pending=pending, clients=state.clients.insert(event.client_id, client))


def _with_present(state: SessionState, recorded: Recorded, present: tuple[Presence, ...]) -> SessionState:
    """Add the clients that were present at the time of an ask as connected to this session.

    Nothing records that they leave where anyone may answer, so only a bounded number is kept.
    """
    clients = state.clients
    for one in present:
        if one.client_id not in clients and len(clients) < RECORDED_CLIENTS_COUNT:
            clients = clients.insert(one.client_id, Client(one.client_id, one.name, recorded.ms, recorded.version))
    return replace(state, clients=clients)


def _disconnected(state: SessionState, recorded: Recorded, event: ClientDisconnected) -> SessionState:
    waiting = state.lock_request
    return replace(
        state,
        clients=state.clients.discard(event.client_id),
        lock=None if state.lock == event.client_id else state.lock,
        lock_request=None if waiting and waiting.client_id == event.client_id else waiting,
    )


def _lock_passed(state: SessionState, recorded: Recorded, event: LockPassed) -> SessionState:
    waiting = state.lock_request
    served = waiting is None or waiting.client_id == event.to
    return replace(state, lock=event.to, lock_request=None if served else waiting)


def _imported(state: SessionState, recorded: Recorded, event: Imported) -> SessionState:
    settled = state.settled.replaced({key: replace(one, imported=True) for key, one in state.settled.items()})
    pending = state.pending
    for request in list(pending.values()):
        # A yes that was read from a file is nobody's yes here.
        pending = pending.insert(request.request_id, replace(request, agreed=())) if request.agreed else pending
    return replace(state, grants=mark_imported(state.grants), settled=settled, pending=pending, imported_ms=recorded.ms)


def _closed(state: SessionState, recorded: Recorded, event: SessionClosed) -> SessionState:
    # A closed session has no deadlines, not even that of its input lock.
    return replace(without_open_claims(state), closed_ms=recorded.ms, lock_request=None)


# Notification and LogRegressed are facts for readers; no decision depends on them.


def without_content(state: SessionState, recorded: Recorded, event: Redacted) -> SessionState:
    """Return the state without the content of the versions that the event names.

    A request loses all content with that of its ask, of a reopening or of its end. The state is the same whether the
    content was there before or not.
    """
    gone = frozenset(event.versions)
    pending = state.pending
    for request in state.pending.values():
        if _is_touched(request, gone):
            pending = pending.insert(request.request_id, _emptied(request))
    settled = state.settled.replaced(
        {
            request_id: _emptied_settled(one)
            for request_id, one in state.settled.items()
            if one.version in gone or _is_touched(one.request, gone)
        }
    )
    grants = mark_redacted(state.grants, gone)
    state = replace(state, pending=pending, settled=settled, grants=grants, redacted_version=recorded.version)
    if state.rules_version in gone:
        state = replace(state, dialect="", edition=None, cwd=None, home=None, rules_redacted=True)
    return state


_EMPTY: Final = Request(
    request_id="", version=0, asked_ms=0, asker=Actor(kind="", name=""), permission="", digest="", redacted=True
)
_CONTENT: Final[dict[str, Any]] = {
    name: getattr(_EMPTY, name)
    for name in Request.__struct_fields__
    if name in (*AskedDetail.__struct_fields__, "links", "summary", "reopened_reason", "redacted")
}
"""The members of a request that stem from its detail, as they are without it."""


def _is_touched(request: Request, gone: frozenset[int]) -> bool:
    if request.agreed and any(one.version in gone for one in request.agreed):
        return True
    return request.version in gone or not gone.isdisjoint(request.reopened_versions)


def _emptied(request: Request) -> Request:
    agreed = tuple([replace(one, message=None) for one in request.agreed])
    return replace(request, agreed=agreed, **_CONTENT)


def _emptied_settled(settled: Settled) -> Settled:
    request = _emptied(settled.request)
    return replace(
        settled,
        request=request,
        message=None,
        granted_patterns=(),
        edited_patterns=None,
        updated_input=None,
        input_digest=None,
    )


_STEPS: dict[type, Callable[[SessionState, Recorded, Any], SessionState]] = {
    SessionOpened: _opened,
    PolicyChanged: _with_policy,
    Asked: _asked,
    Reopened: _reopened,
    Claimed: fold_claimed,
    ClaimReleased: fold_released,
    EndUnknown: fold_end_unknown,
    Agreed: _agreed,
    Replied: _replied,
    Expired: _expired,
    Cancelled: _cancelled,
    DeadlineMoved: _deadline_moved,
    ClientConnected: _connected,
    ClientDisconnected: _disconnected,
    LockTaken: lambda state, _, event: replace(state, lock=event.client_id, lock_request=None),
    LockRequested: lambda state, recorded, event: replace(
        state, lock_request=LockRequest(event.client_id, recorded.ms + event.duration_ms)
    ),
    LockPassed: _lock_passed,
    Granted: lambda state, recorded, event: replace(
        state, grants=add_granted(state.grants, recorded, event, "session")
    ),
    Revoked: lambda state, recorded, event: replace(state, grants=mark_revoked(state.grants, recorded, event)),
    Imported: _imported,
    Redacted: without_content,
    SessionClosed: _closed,
    ToolFinished: fold_finished,
    NewerEvent: lambda state, *_: replace(state, newer=True),
}
