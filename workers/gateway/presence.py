"""Presence over HTTP: a client says again and again that it is there, and is forgotten when it stops.

Nothing is kept here: whether a client is known stands in the log and in its lease, so any gateway may hear it next.
"""

from __future__ import annotations

from ledger import Ledger, Session
from ledger.events import Presence
from ledger.ids import check_id
from ledger.results import Pending, pending_of
from workers.gateway.principals import ForbiddenError, Principal


class Presences:
    """Who is there, for the sessions that they may see."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def in_session(self, session: Session, principal: Principal, client_id: str) -> list[Pending]:
        """Connect, or stay connected; what was replayed, when it was the first time. Raises ForbiddenError."""
        state = await session.state()
        require_own_client(session, principal, check_id(client_id, "client id"))
        if client_id in state.clients:
            await session.renew_lease(Presence(client_id, principal.name))
            return []
        return (await session.connect(client_id, actor=principal.actor, name=principal.name)).replayed

    async def leave_session(self, session: Session, principal: Principal, client_id: str) -> None:
        """Raises ForbiddenError."""
        await session.state()
        require_own_client(session, principal, check_id(client_id, "client id"))
        await session.disconnect(client_id, actor=principal.actor)

    async def in_inbox(self, principal: Principal, client_id: str) -> list[Pending]:
        """The same for all sessions. Whoever sees only some is there in those of them where something waits."""
        check_id(client_id, "client id")
        if principal.projects or principal.sessions:
            return await self._in_some(principal, client_id)
        known = [one for one in await self._ledger.store.leases(None) if one.client_id == client_id]
        if known and known[0].name != principal.name:
            raise ForbiddenError(f"the client `{client_id}` is somebody else's")
        if known:
            await self._ledger.renew_inbox(client_id, actor=principal.name)
            return []
        return await self._ledger.connect_inbox(client_id, actor=principal.name)

    async def _in_some(self, principal: Principal, client_id: str) -> list[Pending]:
        replayed: list[Pending] = []
        for state in await self._ledger.pending_states():
            if principal.reaches(state.session_id, state.project):
                session = Session(self._ledger, state.session_id)
                known = client_id in state.clients
                await self.in_session(session, principal, client_id)
                replayed += [] if known else pending_of(state, is_replay=True)
        return replayed

    async def leave_inbox(self, principal: Principal, client_id: str) -> None:
        known = [
            one for one in await self._ledger.store.leases(None) if one.client_id == check_id(client_id, "client id")
        ]
        if known and known[0].name != principal.name:
            raise ForbiddenError(f"the client `{client_id}` is somebody else's")
        await self._ledger.disconnect_inbox(client_id, actor=principal.name)


def require_own_client(session: Session, principal: Principal, client_id: str | None) -> None:
    """A client is whose it was when it connected: nobody answers, locks or leaves as somebody else's device."""
    client = None if client_id is None else session.stream.state.clients.get(client_id)
    if client is not None and client.name != principal.name:
        raise ForbiddenError(f"the client `{client_id}` is somebody else's", session=session.id)
