"""The open inboxes that count as present in a session, cached for seconds."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from ledger.core.events import Presence
from ledger.log.inboxes import Inbox, open_inboxes, present_in

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger

INBOX_FRESH_SECONDS: Final = 1.0
"""The age from which on open inboxes are read again."""

INBOX_KNOWN_SECONDS: Final = 10.0
"""The maximum age of open inboxes that a command assumes: a wrong guess costs a message, or its deadline corrects it."""


class InboxPresence:
    """The open inboxes of all people; `is_cached` False reads them each time."""

    def __init__(self, ledger: Ledger, *, is_cached: bool) -> None:
        self._ledger = ledger
        self._is_cached = is_cached
        self._inboxes: tuple[Inbox, ...] = ()
        self._read_at = float("-inf")
        self._looking: asyncio.Task[tuple[Inbox, ...]] | None = None

    def known(self, session: str, project: str | None) -> tuple[Presence, ...] | None:
        """Return the clients of the last 10 seconds, which are read again in the background; None if none are known."""
        age = time.monotonic() - self._read_at
        if age > INBOX_KNOWN_SECONDS:
            return None
        if age > INBOX_FRESH_SECONDS:
            _ = self._look_soon()
        return present_in(self._inboxes, session, project) if self._inboxes else ()

    async def current(self, session: str, project: str | None) -> tuple[Presence, ...]:
        """Return the clients with an open inbox that reaches this session, at most a second old."""
        if not self._is_cached:
            return present_in(await open_inboxes(self._ledger.store), session, project)
        is_fresh = time.monotonic() - self._read_at <= INBOX_FRESH_SECONDS
        inboxes = self._inboxes if is_fresh else await asyncio.shield(self._look_soon())
        return present_in(inboxes, session, project)

    def _look_soon(self) -> asyncio.Task[tuple[Inbox, ...]]:
        """Return the read in progress, which concurrent callers share, or begin one."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="ledger inboxes")
            # All callers may have gone by the time it fails.
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._looking

    async def _look(self) -> tuple[Inbox, ...]:
        try:
            inboxes = await open_inboxes(self._ledger.store)
            if self._looking is asyncio.current_task():
                self._inboxes, self._read_at = inboxes, time.monotonic()
        finally:
            if self._looking is asyncio.current_task():
                self._looking = None
        return inboxes

    def forget(self) -> None:
        """Read again at the next call: an inbox was opened or closed by this process."""
        self._read_at = float("-inf")
        self._looking = None
