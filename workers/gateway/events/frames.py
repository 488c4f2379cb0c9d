"""The events for a session's readers that an entry of its log results in: one or several. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from ledger.client.results import Approved, Pending, Result, result_of
from ledger.core.codec import NewerEvent
from ledger.core.events import (
    Agreed,
    Asked,
    Cancelled,
    ClientConnected,
    DeadlineMoved,
    Event,
    Expired,
    Granted,
    Reopened,
    Replied,
    Revoked,
    SessionClosed,
    SessionOpened,
    event_type,
)
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.core.times import format_time, format_time_or_none
from ledger.log.history import logged
from ledger.session.approvals import agreement_of
from ledger.session.state import Request, SessionState, in_order
from ledger.stores.port import Position, StreamKey
from workers.gateway.descriptions import Row, answering_facts, described, result_row, session_row

Told = tuple[str, Row]
"""The event's name, and its data."""

NAMES: Final = {
    "policy_changed": "session.policy_changed",
    "client_connected": "client.connected",
    "client_disconnected": "client.disconnected",
    "lock_taken": "client.lock_taken",
    "lock_requested": "client.lock_requested",
    "lock_passed": "client.lock_passed",
    "notification": "notification",
    "tool_finished": "tool.finished",
    "agreed": "permission.agreed",
    "claimed": "permission.claimed",
    "claim_released": "permission.claim_released",
    "end_unknown": "permission.end_unknown",
    "log_regressed": "session.log_regressed",
}
"""Events that are sent as they stand in the log, by their type there."""

ASKED: Final = "permission.asked"
"""The name of the event that a request waits for an answer."""


class Frame(NamedTuple):
    """One event for readers. `part` of `parts` is its number among the events of its entry, from 1."""

    at: Position
    part: int
    parts: int
    name: str
    data: bytes


def frames_of(
    session: str, recorded: Recorded, before: SessionState, after: SessionState, lineage: Sequence[str]
) -> list[Frame]:
    """Return at least one frame; `docs/reference/events.md` lists the events and their members."""
    told = list(_TELLERS.get(type(recorded.event), _as_logged)(session, recorded, before, after))
    common = {
        "session": session,
        "at": format_time(recorded.ms),
        "version": recorded.version,
        "project": after.project,
        "lineage": lineage,
        "by": recorded.actor.name,
        "kind": recorded.actor.kind,
    }
    at = Position(recorded.ms, recorded.version)
    return [
        Frame(at, index, len(told), name, msgspec.json.encode({**common, **row}))
        for index, (name, row) in enumerate(told, 1)
    ]


def replay_row(state: SessionState, request: Request, lineage: Sequence[str]) -> Row:
    """Return a request that was pending before the reader connected, as `permission.asked` has it."""
    row = described(Pending(session=state.session_id, request=request, is_replay=True))
    return {**row, "project": state.project, "lineage": lineage, **answering_facts(state)}


def _asked(session: str, recorded: Recorded, _: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    if not isinstance(event, Asked | Reopened):
        raise TypeError(event)
    request = after.find(event.request_id)
    if request is None:
        yield from _as_logged(session, recorded, after, after)
    elif event.verdict is Verdict.ASK and event.request_id in after.pending:
        row = described(Pending(session=session, request=request))
        yield ASKED, {**row, **answering_facts(after)}
    else:
        yield "permission.decided", _outcome_row(result_of(after, event.request_id), is_described=False)


def _agreed(session: str, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    request = after.pending.get(getattr(event, "request_id", ""))
    if request is None or agreement_of(request, recorded.actor) is None:
        yield from _as_logged(session, recorded, before, after)
        return
    row = result_of(after, request.request_id).as_json()
    kept = ("session", "request_id", "outcome", "message", "approvals")
    yield "permission.agreed", {name: row[name] for name in kept if name in row}


def _outcome_row(result: Result, *, is_described: bool = True) -> Row:
    """Return an outcome with its reason in one member only: every reader receives every byte of it."""
    row = result_row(result, is_described=is_described)
    if row["request"].get("evaluation") == row["evaluation"]:
        del row["request"]["evaluation"]
    return row


def _settled(name: str) -> Teller:
    def tell(session: str, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
        event = recorded.event
        if not isinstance(event, Replied | Expired | Cancelled):
            raise TypeError(event)
        settled = after.settled.get(event.request_id)
        if settled is None:
            yield from _as_logged(session, recorded, before, after)
            return
        row = _outcome_row(result_of(after, event.request_id))
        row["cancel_cause"] = settled.cancel_cause
        row["grants"] = list(settled.grants)
        row["scope"] = getattr(event, "scope", None)
        yield name, row

    return tell


def _moved(session: str, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    request = after.pending.get(getattr(event, "request_id", ""))
    if request is None:
        yield from _as_logged(session, recorded, before, after)
    else:
        name, row = _deadline(session, request)
        yield name, {**row, "reason": getattr(event, "reason", None)}


def _connected(session: str, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    """Yield the new deadlines of pending requests too: a client that connects gives them their full time again."""
    yield from _as_logged(session, recorded, before, after)
    for request in in_order(after.pending.values()):
        was = before.pending.get(request.request_id)
        if was is None or was.deadline_ms != request.deadline_ms:
            yield _deadline(session, request)


def _deadline(session: str, request: Request) -> Told:
    deadline = format_time_or_none(request.deadline_ms)
    row = {"session": session, "request_id": request.request_id, "deadline": deadline, "tier": request.tier}
    return "permission.deadline_moved", row


def _granted(session: str, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    grant = after.grants.get(getattr(event, "grant_id", ""))
    if grant is None:
        yield from _as_logged(session, recorded, before, after)
    else:
        yield "grant.created", Approved(grant=grant, session=session, project=after.project).as_json()


def _revoked(session: str, recorded: Recorded, _: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    if not isinstance(event, Revoked):
        raise TypeError(event)
    grant = after.grants.get(event.grant_id)
    row: Row = {} if grant is None else {"permission": grant.permission, "pattern": grant.pattern, "scope": grant.scope}
    reason = event.detail.reason if event.detail else None
    yield "grant.revoked", {"grant_id": event.grant_id, "reason": reason, **row}


def _opened(session: str, recorded: Recorded, _: SessionState, after: SessionState) -> Iterator[Told]:
    name = "session.opened" if isinstance(recorded.event, SessionOpened) else "session.closed"
    yield name, session_row(after)


def _as_logged(session: str, recorded: Recorded, _: SessionState, __: SessionState) -> Iterator[Told]:
    row = logged(StreamKey("session", session), recorded).as_json()
    row.update({one: row["event"][one] for one in ("request_id", "client_id") if row["event"].get(one) is not None})
    name = type_of(recorded.event)
    yield NAMES.get(name, f"session.{name}"), row


def type_of(event: Event | NewerEvent) -> str:
    return "newer_event" if isinstance(event, NewerEvent) else event_type(event)


Teller = Callable[[str, Recorded, SessionState, SessionState], Iterator[Told]]

_TELLERS: Final[dict[type, Teller]] = {
    Asked: _asked,
    Reopened: _asked,
    Agreed: _agreed,
    Replied: _settled("permission.replied"),
    Expired: _settled("permission.timeout"),
    Cancelled: _settled("permission.cancelled"),
    DeadlineMoved: _moved,
    ClientConnected: _connected,
    Granted: _granted,
    Revoked: _revoked,
    SessionOpened: _opened,
    SessionClosed: _opened,
}
