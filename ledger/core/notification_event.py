"""The event of a message to a person. See `ledger.core.events`."""

from __future__ import annotations

from typing import Literal

from ledger.core.event_shapes import Detail, Value


class NotificationDetail(Detail, frozen=True):
    text: str | None = None
    target: str | None = None


class Notification(Value, tag="notification", kw_only=True, frozen=True):
    """A notification of a person about a request was `sent` or `failed`, or its outcome was sent (`withdrawn`).

    `step` counts the reminders from 0; a failure without it concerns the message about the outcome. One message may be
    about several requests: their events have the same `message_id`.
    """

    request_id: str
    service: str
    result: Literal["sent", "failed", "withdrawn"]
    person: str | None = None
    step: int | None = None
    message_id: str | None = None
    detail: NotificationDetail | None = None
