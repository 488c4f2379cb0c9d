"""View `notifications`: how many notifications were sent, failed and withdrawn, by service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.events import Notification
from ledger.grants import Recorded
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import State, counted, field_of

NOTIFICATIONS: Final = "notifications"


def project_notifications(key: StreamKey, before: State, recorded: Recorded, after: State) -> Iterator[ViewWrite]:
    event = recorded.event
    if isinstance(event, Notification):
        yield counted(NOTIFICATIONS, field_of(event.service, event.result), 1)
