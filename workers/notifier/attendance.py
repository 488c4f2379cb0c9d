"""The sessions in which a client is connected now, by leases: their requests are seen, and nobody is notified."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from ledger.core.errors import LedgerError
from ledger.log.inboxes import Inbox, open_inboxes, present_in
from ledger.session.state import SessionState
from ledger.stores.port import Store
from workers.notifier.plan import MessagePlan

log = logging.getLogger(__name__)


class Attendance:
    """The leases that one plan depends on; each is read at most once, where a reminder depends on it.

    Unknown presence counts as nobody: one message too many is better than a request that nobody hears of.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._inboxes: tuple[Inbox, ...] | None = None
        self._looked_at: set[str] = set()
        self._attended: set[str] = set()

    async def planned(self, make: Callable[[Collection[str]], MessagePlan]) -> MessagePlan:
        """Return the plan that `make` returns for the sessions with a client, among those it reminds of."""
        while True:
            found = make(self._attended)
            states = {one.state.session_id: one.state for one in found.reminders}
            new = [state for session, state in states.items() if session not in self._looked_at]
            if not new:
                return found
            seen = await asyncio.gather(*(self._is_attended(state) for state in new))
            self._looked_at.update(state.session_id for state in new)
            self._attended.update(state.session_id for state, is_seen in zip(new, seen, strict=True) if is_seen)

    async def _is_attended(self, state: SessionState) -> bool:
        try:
            if self._inboxes is None:
                self._inboxes = await open_inboxes(self._store)
            if present_in(self._inboxes, state.session_id, state.project):
                return True
            return any(await self._store.leases([state.session_id]))
        except LedgerError as error:
            log.warning("notifier: the presence in session %s is unknown: %s", state.session_id, error)
            return False
