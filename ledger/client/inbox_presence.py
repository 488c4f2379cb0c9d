"""The open inboxes that count as present in a session, cached for a second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ledger.core.events import Presence
from ledger.log.inboxes import Inbox, open_inboxes, present_in

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger

INBOX_FRESH_SECONDS: Final = 1.0
"""The maximum age of the cached inbox presence."""


class InboxPresence:
    """The open inboxes of all people; `is_cached` False reads them each time."""

    def __init__(self, ledger: Ledger, *, is_cached: bool) -> None:
        self._ledger = ledger
        self._is_cached = is_cached
        self._inboxes: tuple[float, tuple[Inbox, ...]] = (float("-inf"), ())
        self._looking: asyncio.Task[tuple[Inbox, ...]] | None = None

    def known(self, session: str, project: str | None) -> tuple[Presence, ...] | None:
        """Return the cached presence of the last second; else None."""
        looked_at, inboxes = self._inboxes
        if not self._is_cached or asyncio.get_running_loop().time() - looked_at > INBOX_FRESH_SECONDS:
            return None
        return present_in(inboxes, session, project) if inboxes else ()

    async def current(self, session: str, project: str | None) -> tuple[Presence, ...]:
        """Return the clients with an open inbox that reaches this session, at most a second old."""
        known = self.known(session, project)
        if known is not None:
            return known
        if not self._is_cached:
            return present_in(await open_inboxes(self._ledger.store), session, project)
        if self._looking is None:
            # Concurrent callers share one read.
            self._looking = asyncio.create_task(self._look(), name="ledger inboxes")
            # All callers may have gone by the time it fails.
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return present_in(await asyncio.shield(self._looking), session, project)

    async def _look(self) -> tuple[Inbox, ...]:
        try:
            inboxes = await open_inboxes(self._ledger.store)
            if self._looking is asyncio.current_task():
                self._inboxes = (asyncio.get_running_loop().time(), inboxes)
        finally:
            if self._looking is asyncio.current_task():
                self._looking = None
        return inboxes

    def forget(self) -> None:
        """Read again at the next call: an inbox was opened or closed by this process."""
        self._inboxes = (float("-inf"), ())
        self._looking = None
