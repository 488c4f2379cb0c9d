"""The last moment at which an asker was seen to wait for a request: a hint that is shown, and decides nothing.

Whoever serves an asker renews it while the asker waits. A request that nobody waited for in this way has no such hint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from ledger.core.durations import DAY_MS
from ledger.core.events import Presence
from ledger.stores.port import AskersOf, Store

RENEW_SECONDS: Final = 4.0
GONE_AFTER_MS: Final = 15_000
"""An asker that was not seen for so long is gone; longer than one needs to come again after its connection was lost."""

AT_ONCE_COUNT: Final = 500
"""Sessions that are looked at side by side."""

_KEPT_MS: Final = 31 * DAY_MS


async def see_asker(store: Store, session: str, request_id: str) -> None:
    """Record that the asker of a request waits now. Raises StoreError."""
    seen = Presence(request_id, str(await store.now_ms()))
    await store.renew_lease(AskersOf(session), seen, _KEPT_MS)


async def forget_asker(store: Store, session: str, request_id: str) -> None:
    """Drop the hint of a request that is settled. Raises StoreError."""
    await store.drop_lease(AskersOf(session), request_id)


async def gone_askers(store: Store, session: str) -> dict[str, int]:
    """The requests of a session whose asker is gone, each with the time in ms at which it was last seen. Raises StoreError."""
    return await _gone(store, session, await store.now_ms())


async def gone_anywhere(store: Store, sessions: Iterable[str]) -> dict[tuple[str, str], int]:
    """The same of several sessions, by session and request. Raises StoreError."""
    now_ms = await store.now_ms()
    wanted = list(sessions)
    found: dict[tuple[str, str], int] = {}
    for start in range(0, len(wanted), AT_ONCE_COUNT):
        some = wanted[start : start + AT_ONCE_COUNT]
        for session, gone in zip(some, await asyncio.gather(*(_gone(store, one, now_ms) for one in some)), strict=True):
            found.update({(session, request_id): ms for request_id, ms in gone.items()})
    return found


async def _gone(store: Store, session: str, now_ms: int) -> dict[str, int]:
    seen = {one.client_id: int(one.name) for one in await store.leases(AskersOf(session)) if one.name.isdecimal()}
    return {request_id: ms for request_id, ms in seen.items() if now_ms - ms > GONE_AFTER_MS}
