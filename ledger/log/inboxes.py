"""Leases of open inboxes, and the sessions that each of them reaches.

An open inbox is present in every session that it reaches, including later ones: an ask reads the leases of all open
inboxes, which are few, and keeps those that reach its session. Inboxes bound to some projects or sessions have a lease
key of their own, so that a process of an older version, which has no notion of reach, does not count them as present
everywhere. A hint, as every lease is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from ledger.core.events import Presence
from ledger.core.limits import LEASE_MS
from ledger.stores.port import BOUND_INBOXES, Store

log = logging.getLogger(__name__)


class InboxReach(msgspec.Struct, frozen=True, gc=False):
    """The sessions that an inbox may see. An empty member does not restrict; where both are set, both must match."""

    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()

    def covers(self, session: str, project: str | None) -> bool:
        """Return whether a session of this project is within reach. A session without a project is its own project."""
        in_project = not self.projects or (session if project is None else project) in self.projects
        return in_project and (not self.sessions or session in self.sessions)


EVERYWHERE: Final = InboxReach()


class Inbox(msgspec.Struct, frozen=True, gc=False):
    """An open inbox: its client and its reach."""

    client: Presence
    reach: InboxReach = EVERYWHERE


class _Bound(msgspec.Struct, frozen=True, gc=False):
    """The JSON in the name member of a bound inbox's lease."""

    name: str
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


def present_in(inboxes: Iterable[Inbox], session: str, project: str | None) -> tuple[Presence, ...]:
    """Return the clients of the inboxes that reach a session of this project."""
    return tuple(one.client for one in inboxes if one.reach.covers(session, project))


async def open_inboxes(store: Store) -> tuple[Inbox, ...]:
    """Return the open inboxes by their leases. Raises StoreError."""
    everywhere, bound = await asyncio.gather(store.leases(None), store.leases(BOUND_INBOXES))
    read = (_read(lease) for lease in bound)
    return (*(Inbox(client) for client in everywhere), *(one for one in read if one is not None))


async def renew_inbox(store: Store, inbox: Inbox) -> None:
    """Renew the lease of an inbox. Raises StoreError."""
    if inbox.reach == EVERYWHERE:
        await store.renew_lease(None, inbox.client, LEASE_MS)
        return
    said = _Bound(inbox.client.name, inbox.reach.projects, inbox.reach.sessions)
    lease = Presence(inbox.client.client_id, msgspec.json.encode(said).decode())
    await store.renew_lease(BOUND_INBOXES, lease, LEASE_MS)


async def close_inbox(store: Store, client_id: str) -> None:
    """Drop the leases of an inbox. Raises StoreError."""
    await asyncio.gather(*(store.drop_lease(place, client_id) for place in (None, BOUND_INBOXES)))


def _read(lease: Presence) -> Inbox | None:
    """Parse a bound inbox's lease; None for one that another version wrote, which then counts as absent."""
    try:
        said = msgspec.json.decode(lease.name, type=_Bound)
    except msgspec.DecodeError:
        log.warning("the inbox of client `%s` is skipped: its lease cannot be read", lease.client_id)
        return None
    if not said.projects and not said.sessions:
        return None
    return Inbox(Presence(lease.client_id, said.name), InboxReach(said.projects, said.sessions))
