"""Presence over HTTP: a client renews its presence at intervals, and is removed when it stops.

Nothing is kept in memory: leases hold all of it, so any gateway can take the next renewal.
"""

from __future__ import annotations

import logging

from ledger import Ledger, Session
from ledger.client.results import Pending
from ledger.core.errors import DamageError
from ledger.core.events import Presence
from ledger.core.ids import check_id
from ledger.log.inboxes import Inbox, open_inboxes
from ledger.session.decision import records_clients
from ledger.session.state import SessionState
from workers.gateway.principals import ForbiddenError, Principal

log = logging.getLogger(__name__)


class Presences:
    """Presence of clients in the sessions that they may see."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def in_session(self, session: Session, principal: Principal, client_id: str) -> list[Pending]:
        """Connect or stay connected; return the replayed requests at the first call. Raises ForbiddenError."""
        state = await session.state()
        has_lease = await require_own_client(session, principal, check_id(client_id, "client id"))
        if has_lease and (client_id in state.clients or not records_clients(state)):
            await session.renew_lease(Presence(client_id, principal.name))
            return []
        return (await session.connect(client_id, actor=principal.actor, name=principal.name)).replayed

    async def leave_session(self, session: Session, principal: Principal, client_id: str) -> None:
        """Disconnect from a session. Raises ForbiddenError."""
        await session.state()
        await require_own_client(session, principal, check_id(client_id, "client id"))
        await session.disconnect(client_id, actor=principal.actor)

    async def in_inbox(self, principal: Principal, client_id: str) -> list[Pending]:
        """Connect to all sessions within the principal's reach, future ones included. Raises ForbiddenError."""
        open_ones = await self._own_inboxes(principal, client_id)
        if any(one.reach == principal.reach for one in open_ones):
            await self._ledger.renew_inbox(client_id, actor=principal.name, reach=principal.reach)
            return []
        for state in await self._ledger.waiting.states():
            if principal.reaches_state(state):
                _require_own(state, principal, client_id)
        return await self._ledger.connect_inbox(client_id, actor=principal.actor, reach=principal.reach)

    async def leave_inbox(self, principal: Principal, client_id: str) -> None:
        """Disconnect from the inbox. Raises ForbiddenError."""
        await self._own_inboxes(principal, client_id)
        await self._ledger.disconnect_inbox(client_id, actor=principal.actor)

    async def _own_inboxes(self, principal: Principal, client_id: str) -> list[Inbox]:
        check_id(client_id, "client id")
        found = [one for one in await open_inboxes(self._ledger.store) if one.client.client_id == client_id]
        if any(one.client.name != principal.name for one in found):
            raise ForbiddenError(f"the client `{client_id}` is somebody else's")
        return found


async def require_own_client(session: Session, principal: Principal, client_id: str | None) -> bool:
    """Return whether a client has a lease in this session; None has none.

    Raises ForbiddenError for another person's client: nobody answers, locks or leaves as somebody else's device.
    """
    if client_id is None:
        return False
    _require_own(session.stream.state, principal, client_id)
    try:
        leases = await session.leases()
    except DamageError as error:
        # Answers count whatever lies at the key of a hint.
        log.warning("the clients of session %s are unknown: %s", session.id, error)
        return False
    own = next((one for one in leases if one.client_id == client_id), None)
    if own is not None and own.name != principal.name:
        raise _not_own(client_id, session.id)
    return own is not None


def _require_own(state: SessionState, principal: Principal, client_id: str) -> None:
    """Check a client on record; where connections are not recorded, its lease alone tells whose it is."""
    client = state.clients.get(client_id) if records_clients(state) else None
    if client is not None and client.name != principal.name:
        raise _not_own(client_id, state.session_id)


def _not_own(client_id: str, session_id: str) -> ForbiddenError:
    return ForbiddenError(f"the client `{client_id}` is somebody else's", session=session_id)
