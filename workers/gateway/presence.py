"""Presence over HTTP: a client renews its presence at intervals, and is removed when it stops.

Nothing is kept in memory: the log and a lease hold all of it, so any gateway can take the next renewal.
"""

from __future__ import annotations

from ledger import Ledger, Session
from ledger.client.results import Pending
from ledger.core.events import Presence
from ledger.core.ids import check_id
from ledger.log.inboxes import Inbox, open_inboxes
from ledger.session.state import SessionState
from workers.gateway.principals import ForbiddenError, Principal


class Presences:
    """Presence of clients in the sessions that they may see."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def in_session(self, session: Session, principal: Principal, client_id: str) -> list[Pending]:
        """Connect or stay connected; return the replayed requests at the first call. Raises ForbiddenError."""
        state = await session.state()
        require_own_client(session, principal, check_id(client_id, "client id"))
        if client_id in state.clients:
            await session.renew_lease(Presence(client_id, principal.name))
            return []
        return (await session.connect(client_id, actor=principal.actor, name=principal.name)).replayed

    async def leave_session(self, session: Session, principal: Principal, client_id: str) -> None:
        """Disconnect from a session. Raises ForbiddenError."""
        await session.state()
        require_own_client(session, principal, check_id(client_id, "client id"))
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


def require_own_client(session: Session, principal: Principal, client_id: str | None) -> None:
    """Raise ForbiddenError for another person's client: nobody answers, locks or leaves as somebody else's device."""
    if client_id is not None:
        _require_own(session.stream.state, principal, client_id)


def _require_own(state: SessionState, principal: Principal, client_id: str) -> None:
    client = state.clients.get(client_id)
    if client is not None and client.name != principal.name:
        raise ForbiddenError(f"the client `{client_id}` is somebody else's", session=state.session_id)
