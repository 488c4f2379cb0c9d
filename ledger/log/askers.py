"""Leases of askers that wait for a request: a hint for display, on which no decision depends.

The process that serves an asker renews the lease while the asker waits. Without such a wait a request has no lease.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from ledger.core.errors import DamageError
from ledger.core.events import Presence
from ledger.core.times import DAY_MS
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
