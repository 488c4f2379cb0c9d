"""The messages recently sent to one person by all their services together: limits are per person, not per service.

Each service of a person is served separately, so that one that hangs blocks no other. A service holds a turn while it
sends, and a held turn counts as a message; so services and workers never send the last message of a day twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.durations import DAY_MS
from ledger.stores.port import Store, WorkPlace
from projections import queries
from projections.queries import SentMessage

AGAIN_SECONDS: Final = 1.0
"""The pause before a retry when another worker has the turn, or the server is away."""


class Allowance:
    """One person's allowance, in one process."""

    def __init__(self, store: Store, person: str, services: Sequence[str]) -> None:
        self._store = store
        self._person = person
        self._services = tuple(services)
        self._sent: dict[str, SentMessage] = {}
        """Messages of this process: the views may not have them yet."""

    def turn(self, service: str) -> WorkPlace:
        """Return the place of the turn for this service."""
        return WorkPlace(f"notify:{service}:{self._person}")

    async def under_way(self, service: str) -> int:
        """Return the number of messages in flight at the person's other services, by any worker. Raises StoreError."""
        others = [self.turn(one) for one in self._services if one != service]
        return sum(map(bool, await self._store.leases(others)))

    async def messages(self, now_ms: int) -> dict[str, SentMessage]:
        """Return the messages recently sent to the person, by message id. Raises StoreError."""
        return {**await queries.messages_to(self._store, self._person, self._services, now_ms), **self._sent}

    def note(self, message_id: str, service: str, now_ms: int) -> None:
        """Note that the service accepted this message."""
        kept = {key: one for key, one in self._sent.items() if one.ms > now_ms - DAY_MS}
        self._sent = kept | {message_id: SentMessage(service, now_ms)}

    def pause_seconds(self, service: str) -> float:
        """Return the pause before a retry, different for each service, so that two of them do not collide again."""
        return AGAIN_SECONDS * (1 + self._services.index(service))
