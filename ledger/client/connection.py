"""The clients of people that are connected to a session: their leases, and the input lock."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ledger.client.results import Pending, pending_of
from ledger.core.events import Actor, Presence
from ledger.core.limits import DURATION_MS_MAX, LEASE_MS
from ledger.session.commands import Connect, Disconnect, PassLock, TakeLock
from ledger.stores.store import Clock

if TYPE_CHECKING:
    from ledger.client.grounds import Grounds
    from ledger.client.parts import Parts
    from ledger.log.plans import Done
    from ledger.log.stream import Stream
    from ledger.session.state import SessionState

log = logging.getLogger(__name__)

RENEW_SECONDS = LEASE_MS / 3000
"""A third of a lease."""


def lease_ms(clock: Clock, *, is_held: bool) -> int:
    """Return the duration of a client's lease. `is_held`: it is renewed automatically."""
    # A test that moves the clock by 60 s at once would outrun the renewals, which take real time.
    return DURATION_MS_MAX if is_held and clock.is_moved_by_hand else LEASE_MS


class SessionClients:
    """The part of a session about clients."""

    id: str
    _ledger: Parts
    _stream: Stream[SessionState]
    _grounds: Grounds

    async def connect_by_inbox(self, presence: Presence, actor: Actor) -> list[Pending]:
        """Connect a client whose presence is the lease of its inbox; return the pending requests for replay."""
        done = await self._grounds.by_current_rules(self._connect, presence, actor)
        return pending_of(done.state, is_replay=True)

    async def _connect(self, presence: Presence, actor: Actor) -> Done[SessionState]:
        state = await self._stream.refresh()
        command = Connect(
            actor=actor, client_id=presence.client_id, name=presence.name, live=await self._grounds.live(state)
        )
        return await self._stream.submit(command)

    async def present(self) -> tuple[Presence, ...] | None:
        """Return the clients that are online: in this session, and in inboxes that reach it; None if unknown."""
        live = await self._grounds.read_live(await self._grounds.folded())
        return live.all() if live.is_known else None

    async def leases(self) -> tuple[Presence, ...]:
        """Return the clients with a lease in this session, without inboxes. Raises DamageError, StoreError."""
        (found,) = await self._ledger.store.leases([self.id])
        return found

    async def renew_lease(self, client: Presence, *, is_held: bool = False) -> None:
        """Renew a client's lease; `is_held`: it is renewed automatically."""
        await self._ledger.store.lease(self.id, client, lease_ms(self._ledger.store.clock, is_held=is_held))

    async def disconnect(self, client_id: str, *, actor: Actor | str | None = None) -> None:
        await self._ledger.store.lease(self.id, Presence(client_id, ""), 0)
        await self._stream.submit(Disconnect(actor=self._ledger.actor(actor, "person"), client_id=client_id))

    async def take_lock(self, client_id: str, *, actor: Actor | str | None = None) -> bool:
        """Take the input lock, or request it, after which it passes in 10 s. Return True if it is held now."""
        done = await self._stream.submit(TakeLock(actor=self._ledger.actor(actor, "person"), client_id=client_id))
        return done.state.lock == client_id

    async def pass_lock(self, client_id: str, to: str, *, actor: Actor | str | None = None) -> None:
        who = self._ledger.actor(actor, "person")
        await self._stream.submit(PassLock(actor=who, client_id=client_id, to=to))
