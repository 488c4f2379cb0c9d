"""The notification state of a session, folded from its stream: unattended requests, and tries to notify.

A notifier that starts continues from it after another one has died. Pure.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ledger.core.events import Asked, DeadlineMoved, Expired, Reopened
from ledger.core.grants import Recorded
from ledger.core.notification_event import Notification
from ledger.session.state import SessionState


class Told(msgspec.Struct, frozen=True, gc=False):
    """One try to notify one person of one request. `step` None is the notice that it ended."""

    person: str
    service: str
    result: Literal["sent", "failed", "withdrawn"]
    step: int | None
    message_id: str | None
    ms: int


class NotificationState(msgspec.Struct, frozen=True, kw_only=True):
    """`since_ms` and the tries, in order, are by request id; `missed` has the `since_ms` of requests that expired."""

    state: SessionState
    since_ms: dict[str, int] = {}
    told: dict[str, tuple[Told, ...]] = {}
    missed: dict[str, int] = {}


def next_state(notified: NotificationState, recorded: Recorded, after: SessionState) -> NotificationState:
    """Return the state after one more event; `after` is the session's fold then."""
    event = recorded.event
    since_ms, told, missed = notified.since_ms, notified.told, notified.missed
    if isinstance(event, Expired) and event.request_id in since_ms:
        missed = {**missed, event.request_id: since_ms[event.request_id]}
    if isinstance(event, Asked | Reopened | DeadlineMoved) and event.tier == "unattended":
        since_ms = {**since_ms, event.request_id: recorded.ms}
    elif isinstance(event, Notification) and event.person is not None:
        one = Told(event.person, event.service, event.result, event.step, event.message_id, recorded.ms)
        told = {**told, event.request_id: (*told.get(event.request_id, ()), one)}
    request_id = getattr(event, "request_id", None)
    if isinstance(request_id, str) and request_id in since_ms and request_id not in after.pending:
        since_ms = {key: value for key, value in since_ms.items() if key != request_id}
    return NotificationState(state=after, since_ms=since_ms, told=told, missed=missed)
