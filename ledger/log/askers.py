"""Leases of askers that wait for a request: a hint for display, on which no decision depends.

The process that serves an asker renews the lease while the asker waits. Without such a wait a request has no lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from ledger.core.durations import DAY_MS
from ledger.core.errors import DamageError
from ledger.core.events import Presence
from ledger.stores.port import AskersOf, Store

log = logging.getLogger(__name__)

RENEW_SECONDS: Final = 4.0
GONE_AFTER_MS: Final = 15_000
"""The time without a renewal after which an asker counts as gone; longer than a reconnect takes."""

AT_ONCE_COUNT: Final = 500
"""Sessions that are read concurrently."""

_KEPT_MS: Final = 31 * DAY_MS


async def see_asker(store: Store, session: str, request_id: str) -> None:
    """Renew the lease of a request's asker. Raises StoreError."""
    seen = Presence(request_id, str(await store.now_ms()))
    await store.renew_lease(AskersOf(session), seen, _KEPT_MS)


async def forget_asker(store: Store, session: str, request_id: str) -> None:
    """Drop the lease of a settled request. Raises StoreError."""
    await store.drop_lease(AskersOf(session), request_id)


async def gone_askers(store: Store, session: str) -> dict[str, int]:
    """Return the requests of a session whose asker is gone, and the time (ms) it was last seen. Raises StoreError."""
    return await _gone(store, session, await store.now_ms())


async def gone_anywhere(store: Store, sessions: Iterable[str]) -> dict[tuple[str, str], int]:
    """Return the same for several sessions, by session and request. Raises StoreError."""
    now_ms = await store.now_ms()
    wanted = list(sessions)
    found: dict[tuple[str, str], int] = {}
    for start in range(0, len(wanted), AT_ONCE_COUNT):
        some = wanted[start : start + AT_ONCE_COUNT]
        for session, gone in zip(some, await asyncio.gather(*(_gone(store, one, now_ms) for one in some)), strict=True):
            found.update({(session, request_id): ms for request_id, ms in gone.items()})
    return found


async def _gone(store: Store, session: str, now_ms: int) -> dict[str, int]:
    try:
        leases = await store.leases(AskersOf(session))
    except DamageError as error:
        # A hint for display: whatever lies there, the requests are shown.
        log.warning("the askers of session %s are unknown: %s", session, error.text)
        return {}
    seen = {one.client_id: int(one.name) for one in leases if one.name.isdecimal()}
    return {request_id: ms for request_id, ms in seen.items() if now_ms - ms > GONE_AFTER_MS}
