"""Notifications: the view `counts` counts them, the view `told` lists the messages that each person was sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.event_shapes import Notification
from ledger.core.times import DAY_MS
from ledger.log.places import field_of
from ledger.stores.port import StreamKey
from ledger.stores.values import ViewWrite
from projections.projection import COUNTS, Seen, counted, listed

NOTIFICATION: Final = "notification"
"""The first part of the names of counts."""

TOLD: Final = "told"

WEBPUSH: Final = "webpush"
"""The service of push messages; that of one device has its id behind a hyphen."""


def project_notifications(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    recorded, event = seen.recorded, seen.recorded.event
    if not isinstance(event, Notification):
        return
    # All devices count as one service: a metric must not grow with people's phones.
    service = WEBPUSH if event.service.startswith(f"{WEBPUSH}-") else event.service
    yield counted(COUNTS, field_of(NOTIFICATION, service, event.result), 1)
    if event.result == "sent" and event.person is not None and event.message_id is not None:
        said = field_of(event.person, event.service, str(recorded.ms // DAY_MS), str(recorded.ms), event.message_id)
        yield listed(TOLD, said)
