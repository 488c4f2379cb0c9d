"""Leases of open inboxes, and the sessions that each of them reaches.

An open inbox is present in every session that it reaches, including later ones: an ask reads the leases of all open
inboxes, which are few, and keeps those that reach its session. A hint, as every lease is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from ledger.core.events import Presence
from ledger.core.limits import LEASE_MS
from ledger.stores.port import Store

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


class _Lease(msgspec.Struct, frozen=True, gc=False):
    """The JSON in the name member of an inbox's lease: one without any reach counts nowhere."""

    name: str
    everywhere: bool = False
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


def present_in(inboxes: Iterable[Inbox], session: str, project: str | None) -> tuple[Presence, ...]:
    """Return the clients of the inboxes that reach a session of this project."""
    return tuple([one.client for one in inboxes if one.reach.covers(session, project)])


async def open_inboxes(store: Store) -> tuple[Inbox, ...]:
    """Return the open inboxes by their leases. Raises StoreError."""
    (leases,) = await store.leases([None])
    return readable(leases)


def readable(leases: Iterable[Presence]) -> tuple[Inbox, ...]:
    """Return the inboxes of these leases that can be read."""
    return tuple([one for one in map(_read, leases) if one is not None])


async def renew_inbox(store: Store, inbox: Inbox) -> None:
    """Renew the lease of an inbox. Raises StoreError."""
    reach = inbox.reach
    lease = _Lease(inbox.client.name, reach == EVERYWHERE, reach.projects, reach.sessions)
    written = Presence(inbox.client.client_id, msgspec.json.encode(lease).decode())
    await store.lease(None, written, LEASE_MS)


async def close_inbox(store: Store, client_id: str) -> None:
    """Drop the lease of an inbox. Raises StoreError."""
    await store.lease(None, Presence(client_id, ""), 0)


def _read(written: Presence) -> Inbox | None:
    """Parse an inbox's lease; None for one that cannot be read, which then counts as absent."""
    try:
        lease = msgspec.json.decode(written.name, type=_Lease)
    except msgspec.DecodeError:
        log.warning("the inbox of client `%s` is skipped: its lease cannot be read", written.client_id)
        return None
    if not (lease.everywhere or lease.projects or lease.sessions):
        return None
    return Inbox(Presence(written.client_id, lease.name), InboxReach(lease.projects, lease.sessions))
