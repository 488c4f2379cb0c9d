"""The connection of a person's client to a session."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self

from ledger.client.results import Pending, Result
from ledger.core.errors import LedgerError
from ledger.core.events import Actor, Presence
from ledger.core.limits import DURATION_MS_MAX, LEASE_MS
from ledger.core.requests import Answer
from ledger.stores.store import Clock

if TYPE_CHECKING:
    from ledger.client.session import Session

log = logging.getLogger(__name__)

RENEW_SECONDS = LEASE_MS / 3000
"""A third of a lease."""


def lease_ms(clock: Clock, *, is_held: bool) -> int:
    """Return the duration of a client's lease. `is_held`: it is renewed automatically."""
    # A test that moves the clock by 60 s at once would outrun the renewals, which take real time.
    return DURATION_MS_MAX if is_held and clock.is_moved_by_hand else LEASE_MS


class ClientConnection:
    """A client's connection to a session: the requests replayed to it, and its lease."""

    def __init__(self, session: Session, presence: Presence, actor: Actor, replayed: list[Pending]) -> None:
        self.session = session
        self.client_id = presence.client_id
        self.replayed = replayed
        self._presence = presence
        self._actor = actor
        self._renewing: asyncio.Task[None] | None = None

    async def renew(self) -> None:
        """Renew the client's lease, which otherwise ends after 30 s."""
        await self.session.renew_lease(self._presence, is_held=self._renewing is not None)

    async def disconnect(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        await self.session.disconnect(self.client_id, actor=self._actor)

    async def reply(self, /, request_id: str, reply: Answer, **more: Any) -> Result:
        """Answer as this client."""
        return await self.session.reply(request_id, reply, actor=self._actor, client_id=self.client_id, **more)

    async def __aenter__(self) -> Self:
        self._renewing = asyncio.create_task(self._keep_renewing(), name=f"lease of {self.client_id}")
        await self.renew()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.disconnect()

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self.renew()
            except LedgerError as error:
                log.warning("the lease of client %s could not be renewed: %s", self.client_id, error)
