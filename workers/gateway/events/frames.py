"""The events for readers that an entry of the log results in: one or several. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from ledger.client.results import Approved, Pending, Result, result_of
from ledger.core.codec import NewerEvent
from ledger.core.events import (
    Agreed,
    Asked,
    Cancelled,
    ClientConnected,
    DeadlineMoved,
    Expired,
    Granted,
    Reopened,
    Replied,
    Revoked,
    SessionClosed,
    SessionOpened,
    UseTaken,
    event_type,
)
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.core.times import format_time, format_time_or_none
from ledger.log.history import logged
from ledger.project import ProjectState
from ledger.session.approvals import agreement_of
from ledger.session.state import Request, SessionState, in_order
from ledger.stores.port import Position, StreamKey
from workers.gateway.descriptions import described
from workers.gateway.rows import Row, answering_facts, result_row, session_row

State = SessionState | ProjectState
Told = tuple[str, Row, Request | None]
"""The event's name, its data, and the request it belongs to."""

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

REDACTIONS: Final = frozenset(("session.redacted", "project.redacted"))
"""The names of events after which earlier ones of their stream have lost content."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One event for readers. `part` of `parts` is its number among the events of its entry, from 1."""

    key: StreamKey
    at: Position
    part: int
    parts: int
    name: str
    data: bytes
    session: str | None
    project: str | None
    lineage: tuple[str, ...]
    """The sessions above this one, the root first."""
    agents: tuple[str | None, ...]
    request_id: str | None
    request: Request | None
    """Only of `permission.asked`: a form that writes requests in another way needs it."""
    directory: str | None
    reply: str | None = None
    opened_with: str | None = None
    """The access token with which its session was opened."""


def frames_of(key: StreamKey, recorded: Recorded, before: State, after: State, lineage: tuple[str, ...]) -> list[Frame]:
    """Return at least one frame; `docs/reference/events.md` lists the events and their members."""
    if isinstance(after, SessionState) and isinstance(before, SessionState):
        told = list(_of_session(key, recorded, before, after))
        session: str | None = key.id
        project = after.project
        agent, directory, opened_with = after.agent, after.cwd, after.token_id
    else:
        told = list(_of_project(key, recorded, after))
        session, project = getattr(recorded.event, "session", None), key.id
        agent, directory, opened_with = None, None, None
    common = {"project": project, "lineage": list(lineage), "by": recorded.actor.name, "kind": recorded.actor.kind}
    stamp = {"at": format_time(recorded.ms), "version": recorded.version}
    return [
        Frame(
            key=key,
            at=Position(recorded.ms, recorded.version),
            part=index,
            parts=len(told),
            name=name,
            data=_exactly(msgspec.json.encode({"session": session, **stamp, **common, **row})),
            session=session,
            project=project,
            lineage=lineage,
            agents=(agent,) if request is None else (agent, request.agent),
            request_id=None if request is None else request.request_id,
            request=request if name == ASKED else None,
            directory=directory,
            reply=row.get("reply") if request is not None else None,
            opened_with=opened_with,
        )
        for index, (name, row, request) in enumerate(told, 1)
    ]


def _exactly(encoded: bytes) -> bytes:
    """Return a copy: the encoder's own bytes keep up to half as much room again behind them, as long as they live."""
    return bytes(memoryview(encoded))


def replay_row(state: SessionState, request: Request, lineage: tuple[str, ...]) -> Row:
    """Return a request that was pending before the reader connected, as `permission.asked` has it."""
    row = described(Pending(session=state.session_id, request=request, is_replay=True))
    return {**row, "project": state.project, "lineage": list(lineage), **answering_facts(state)}


def _of_session(key: StreamKey, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    tell = _TELLERS.get(type(recorded.event), _as_logged)
    yield from tell(key, recorded, before, after)


def _asked(key: StreamKey, recorded: Recorded, _: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    if not isinstance(event, Asked | Reopened):
        raise TypeError(event)
    request = after.find(event.request_id)
    if request is None:
        yield from _as_logged(key, recorded, after, after)
    elif event.verdict is Verdict.ASK and event.request_id in after.pending:
        row = described(Pending(session=key.id, request=request))
        yield ASKED, {**row, **answering_facts(after)}, request
    else:
        yield "permission.decided", _outcome_row(result_of(after, event.request_id), is_described=False), request


def _agreed(key: StreamKey, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    request = after.pending.get(getattr(event, "request_id", ""))
    if request is None or agreement_of(request, recorded.actor) is None:
        yield from _as_logged(key, recorded, before, after)
        return
    row = result_of(after, request.request_id).as_json()
    kept = ("session", "request_id", "outcome", "message", "approvals")
    yield "permission.agreed", {name: row[name] for name in kept if name in row}, request


def _outcome_row(result: Result, *, is_described: bool = True) -> Row:
    """Return an outcome with its reason in one member only: every reader receives every byte of it."""
    row = result_row(result, is_described=is_described)
    if row["request"].get("evaluation") == row["evaluation"]:
        del row["request"]["evaluation"]
    return row


def _settled(name: str) -> Teller:
    def tell(key: StreamKey, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
        event = recorded.event
        if not isinstance(event, Replied | Expired | Cancelled):
            raise TypeError(event)
        settled = after.settled.get(event.request_id)
        if settled is None:
            yield from _as_logged(key, recorded, before, after)
            return
        row = _outcome_row(result_of(after, event.request_id))
        row["cancel_cause"] = settled.cancel_cause
        row["grants"] = list(settled.grants)
        row["scope"] = getattr(event, "scope", None)
        yield name, row, settled.request

    return tell


def _moved(key: StreamKey, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    request = after.pending.get(getattr(event, "request_id", ""))
    if request is None:
        yield from _as_logged(key, recorded, before, after)
    else:
        name, row, request = _deadline(key, request)
        yield name, {**row, "reason": getattr(event, "reason", None)}, request


def _connected(key: StreamKey, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    """Yield the new deadlines of pending requests too: a client that connects gives them their full time again."""
    yield from _as_logged(key, recorded, before, after)
    for request in in_order(after.pending.values()):
        was = before.pending.get(request.request_id)
        if was is None or was.deadline_ms != request.deadline_ms:
            yield _deadline(key, request)


def _deadline(key: StreamKey, request: Request) -> Told:
    deadline = format_time_or_none(request.deadline_ms)
    row = {"session": key.id, "request_id": request.request_id, "deadline": deadline, "tier": request.tier}
    return "permission.deadline_moved", row, request


def _granted(key: StreamKey, recorded: Recorded, before: SessionState, after: SessionState) -> Iterator[Told]:
    event = recorded.event
    if isinstance(event, Granted) and event.grant_id in after.grants:
        yield from _grant(key, event.grant_id, after, after.project)
    else:
        yield from _as_logged(key, recorded, before, after)


def _grant(key: StreamKey, grant_id: str, after: State, project: str | None) -> Iterator[Told]:
    grant = after.grants.get(grant_id)
    if grant is not None:
        session = key.id if key.kind == "session" else grant.session
        yield "grant.created", Approved(grant=grant, session=session, project=project).as_json(), None


def _revoked(key: StreamKey, recorded: Recorded, _: State, after: State) -> Iterator[Told]:
    event = recorded.event
    if not isinstance(event, Revoked):
        raise TypeError(event)
    grant = after.grants.get(event.grant_id)
    row: Row = {} if grant is None else {"permission": grant.permission, "pattern": grant.pattern, "scope": grant.scope}
    reason = event.detail.reason if event.detail else None
    yield "grant.revoked", {"grant_id": event.grant_id, "reason": reason, **row}, None


def _used(event: UseTaken, after: State) -> Iterator[Told]:
    grant = after.grants.get(event.grant_id)
    left = None if grant is None else grant.uses_left
    used = {"grant_id": event.grant_id, "used_in": event.session, "request_id": event.request_id, "uses_left": left}
    yield "grant.used", used, None


def _opened(key: StreamKey, recorded: Recorded, _: SessionState, after: SessionState) -> Iterator[Told]:
    name = "session.opened" if isinstance(recorded.event, SessionOpened) else "session.closed"
    yield name, session_row(after), None


def _as_logged(key: StreamKey, recorded: Recorded, _: State, __: State) -> Iterator[Told]:
    event = recorded.event
    name = "newer_event" if isinstance(event, NewerEvent) else event_type(event)
    row = logged(key, recorded).as_json()
    row.update({one: row["event"][one] for one in ("request_id", "client_id") if row["event"].get(one) is not None})
    yield NAMES.get(name, f"{key.kind}.{name}"), row, None


def _of_project(key: StreamKey, recorded: Recorded, after: State) -> Iterator[Told]:
    event = recorded.event
    if isinstance(event, Granted) and event.grant_id in after.grants:
        yield from _grant(key, event.grant_id, after, key.id)
    elif isinstance(event, UseTaken):
        yield from _used(event, after)
    elif isinstance(event, Revoked):
        yield from _revoked(key, recorded, after, after)
    else:
        yield from _as_logged(key, recorded, after, after)


Teller = Callable[[StreamKey, Recorded, Any, Any], Iterator[Told]]

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
