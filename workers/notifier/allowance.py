"""What one person was sent lately, by all their services together: the limits are of people, not of services.

Each service of a person is served by itself, so that one that hangs holds up no other. What keeps them, and other
workers, from all sending the last message of a day is the turn that each holds while it sends: a turn that is held
counts as a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.durations import DAY_MS
from ledger.stores.port import Store
from projections import reading
from projections.reading import SentMessage

AGAIN_SECONDS: Final = 1.0
"""How soon to try again when another worker has the turn, or the server is away."""


class Allowance:
    """One person's, in one process."""

    def __init__(self, store: Store, person: str, services: Sequence[str]) -> None:
        self._store = store
        self._person = person
        self._services = tuple(services)
        self._sent: dict[str, SentMessage] = {}
        """Messages of this process: the views may not have them yet."""

    def turn(self, service: str) -> str:
        """The name of the turn to send something by this service."""
        return f"notify:{service}:{self._person}"

    async def under_way(self, service: str) -> int:
        """How many messages may just now be handed to the person's other services, by any worker. Raises StoreError."""
        others = [self.turn(one) for one in self._services if one != service]
        return len(await self._store.admin.turns_held(others))

    async def messages(self, now_ms: int) -> dict[str, SentMessage]:
        """What the person was sent lately, by message id. Raises StoreError."""
        return {**await reading.messages_to(self._store, self._person, self._services, now_ms), **self._sent}

    def note(self, message_id: str, service: str, now_ms: int) -> None:
        """The service took this message."""
        kept = {key: one for key, one in self._sent.items() if one.ms > now_ms - DAY_MS}
        self._sent = kept | {message_id: SentMessage(service, now_ms)}

    def pause_seconds(self, service: str) -> float:
        """How soon to try again. Another time for each service: two that wait for each other must not go on so."""
        return AGAIN_SECONDS * (1 + self._services.index(service))
