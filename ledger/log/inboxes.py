"""People who may answer: leases of open inboxes, and holders of tokens. Beside them the leases of askers that wait.

An open inbox is present in every session that it reaches, including later ones: an ask reads the leases of all open
inboxes, which are few, and keeps those that reach its session. A hint, as every lease is.

The process that serves an asker renews its lease while the asker waits; it is for display, and no decision depends on
it. Without such a wait a request has no lease.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from ledger.access.state import AccessState, Token
from ledger.core.errors import DamageError
from ledger.core.events import Presence
from ledger.core.limits import LEASE_MS
from ledger.core.times import DAY_MS
from ledger.stores.port import AskersOf
from ledger.stores.store import Store

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


ANSWERING: Final = frozenset({"approver", "admin"})
"""The roles whose holders answer requests."""


class TokenHolder(msgspec.Struct, frozen=True):
    """A person by name. `tokens` are those in force that may answer; `is_known`: such a token has existed."""

    name: str
    tokens: tuple[Token, ...] = ()
    is_known: bool = False

    def token_for(self, session: str, project: str | None) -> Token | None:
        """Return the widest token with which they may answer in this session, their own before one that others made."""
        fitting = [one for one in self.tokens if _reach(one).covers(session, project)]
        return min(
            fitting,
            key=lambda one: (one.made_by is not None, len(one.sessions), len(one.projects), one.token_id),
            default=None,
        )


def person_of(state: AccessState, name: str, now_ms: int) -> TokenHolder:
    """Return the person of this name. An unused sign-in link does not count as a token."""
    named = [
        one for one in state.tokens.values() if one.name == name and one.role in ANSWERING and one.use != "sign_in"
    ]
    in_force = tuple(one for one in named if state.token(one.token_id, now_ms) is not None)
    return TokenHolder(name, in_force, is_known=bool(named))


def _reach(token: Token) -> InboxReach:
    return InboxReach(token.projects, token.sessions)


RENEW_SECONDS: Final = 4.0
GONE_AFTER_MS: Final = 15_000
"""The time without a renewal after which an asker counts as gone; longer than a reconnect takes."""

AT_ONCE_COUNT: Final = 500
"""Sessions that are read concurrently."""

_KEPT_MS: Final = 31 * DAY_MS


async def see_asker(store: Store, session: str, request_id: str) -> None:
    """Renew the lease of a request's asker. Raises StoreError."""
    seen = Presence(request_id, str(await store.now_ms()))
    await store.lease(AskersOf(session), seen, _KEPT_MS)


async def forget_asker(store: Store, session: str, request_id: str) -> None:
    """Drop the lease of a settled request. Raises StoreError."""
    await store.lease(AskersOf(session), Presence(request_id, ""), 0)


async def gone_anywhere(store: Store, sessions: Iterable[str]) -> dict[tuple[str, str], int]:
    """Return the requests whose asker is gone, by session and id, and when (ms) it was last seen. Raises StoreError."""
    now_ms = store.clock.now_ms()
    wanted = list(sessions)
    found: dict[tuple[str, str], int] = {}
    for start in range(0, len(wanted), AT_ONCE_COUNT):
        some = wanted[start : start + AT_ONCE_COUNT]
        for session, leases in zip(some, await _leases(store, some), strict=True):
            seen = {one.client_id: int(one.name) for one in leases if one.name.isdecimal()}
            found.update({(session, request_id): ms for request_id, ms in seen.items() if now_ms - ms > GONE_AFTER_MS})
    return found


async def _leases(store: Store, sessions: Sequence[str]) -> list[tuple[Presence, ...]]:
    """Return the leases of the askers in each session; none of one that cannot be read."""
    try:
        return await store.leases([AskersOf(one) for one in sessions])
    except DamageError as error:
        if len(sessions) > 1:
            return [leases for one in sessions for leases in await _leases(store, [one])]
        # A hint for display: whatever lies there, the requests are shown.
        log.warning("the askers of session %s are unknown: %s", sessions[0], error.text)
        return [()]
