"""Who has the inbox open, and which sessions each of them sees in it.

Somebody who sees everything, and somebody who sees some projects or sessions only, are present alike in the sessions
that they see, also in those that are opened or ask only later: an ask reads the leases of all open inboxes, which are
few, and keeps those that reach its session. The two stand apart, so that a process of an older version, which knows
nothing of reach, takes nobody for present who is not. A hint, as every lease is.
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
    """Which sessions somebody may see. None named is all of them; where both are named, both bind."""

    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()

    def covers(self, session: str, project: str | None) -> bool:
        """Whether a session of this project is within it. A session without a project is its own."""
        in_project = not self.projects or (session if project is None else project) in self.projects
        return in_project and (not self.sessions or session in self.sessions)


EVERYWHERE: Final = InboxReach()


class Inbox(msgspec.Struct, frozen=True, gc=False):
    """An inbox that is open: on which device, and how far it reaches."""

    client: Presence
    reach: InboxReach = EVERYWHERE


class _Bound(msgspec.Struct, frozen=True, gc=False):
    """What a lease of a bound inbox says in the place of a name."""

    name: str
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


def present_in(inboxes: Iterable[Inbox], session: str, project: str | None) -> tuple[Presence, ...]:
    """Who of them is there in a session of this project."""
    return tuple(one.client for one in inboxes if one.reach.covers(session, project))


async def open_inboxes(store: Store) -> tuple[Inbox, ...]:
    """All that are open now, by their leases. Raises StoreError."""
    everywhere, bound = await asyncio.gather(store.leases(None), store.leases(BOUND_INBOXES))
    read = (_read(lease) for lease in bound)
    return (*(Inbox(client) for client in everywhere), *(one for one in read if one is not None))


async def renew_inbox(store: Store, inbox: Inbox) -> None:
    """Say that it is open, for the time of a lease from now on. Raises StoreError."""
    if inbox.reach == EVERYWHERE:
        await store.renew_lease(None, inbox.client, LEASE_MS)
        return
    said = _Bound(inbox.client.name, inbox.reach.projects, inbox.reach.sessions)
    lease = Presence(inbox.client.client_id, msgspec.json.encode(said).decode())
    await store.renew_lease(BOUND_INBOXES, lease, LEASE_MS)


async def close_inbox(store: Store, client_id: str) -> None:
    """Say that it is not open any more. Raises StoreError."""
    await asyncio.gather(*(store.drop_lease(place, client_id) for place in (None, BOUND_INBOXES)))


def _read(lease: Presence) -> Inbox | None:
    """None for what another version wrote: whoever cannot be told to see a session is not there."""
    try:
        said = msgspec.json.decode(lease.name, type=_Bound)
    except msgspec.DecodeError:
        log.warning("the inbox of client `%s` is passed over: its lease cannot be read", lease.client_id)
        return None
    if not said.projects and not said.sessions:
        return None
    return Inbox(Presence(lease.client_id, said.name), InboxReach(said.projects, said.sessions))
