"""A cache of sessions' notification states: those with a message due now or later, and the ones used last."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from ledger import Ledger
from ledger.core.errors import DamageError
from ledger.core.limits import PAGE_COUNT
from ledger.log.tail import Folded, nothing_folded
from ledger.session.state import SessionState
from ledger.stores.port import Entry, Foreign, Position, StreamKey
from workers.notifier.plan import NotificationState, is_over, next_state

log = logging.getLogger(__name__)

WAITING_SESSIONS_MAX: Final = 100_000
KEPT_COUNT: Final = 1024
"""The number of states kept of sessions without a message due: the next event is mostly in a recent one."""


class _Held(msgspec.Struct):
    folded: Folded[SessionState]
    notified: NotificationState


class NotificationStates:
    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._reading = asyncio.Lock()
        self._damaged: set[str] = set()
        self.live: set[str] = set()
        """The sessions with a message due, now or later."""

    async def of_all(self) -> list[NotificationState]:
        """Return the states of all sessions with pending requests or with notices due. Raises StoreError."""
        waiting = await self._store.due(None, WAITING_SESSIONS_MAX)
        await self.refresh({*self.live, *(session for session, _ in waiting)})
        return [self._held[session].notified for session in self.live if session in self._held]

    async def refresh(self, sessions: Collection[str]) -> list[NotificationState]:
        """Return the states of these sessions as of now; damaged sessions are left out, and logged."""
        async with self._reading:
            await self._read(set(sessions))
            self._sort(sessions)
            return [self._held[session].notified for session in sessions if session in self._held]

    async def _read(self, waiting: set[str]) -> None:
        while waiting:
            asked = sorted(waiting)
            keys = [StreamKey("session", session) for session in asked]
            pages = await self._pages(
                [(key, self._hold(session).folded.position) for session, key in zip(asked, keys, strict=True)]
            )
            waiting = {
                session
                for session, key, page in zip(asked, keys, pages, strict=True)
                if not self._take(session, key, page)
            }

    async def _pages(self, wanted: Sequence[tuple[StreamKey, Position]]) -> Sequence[Sequence[Entry] | Foreign]:
        heads = await self._store.heads([key for key, _ in wanted])
        moved = [one for one, head in zip(wanted, heads, strict=True) if head.at != one[1]]
        read = dict(zip(moved, await asyncio.gather(*(self._page(*one) for one in moved)), strict=True))
        return [read.get(one, ()) for one in wanted]

    async def _page(self, key: StreamKey, after: Position) -> Sequence[Entry] | Foreign:
        try:
            return await self._store.read(key, after, PAGE_COUNT)
        except Foreign as error:
            return error

    def _hold(self, session: str) -> _Held:
        held = self._held.get(session)
        if held is None:
            folded = nothing_folded(StreamKey("session", session))
            held = self._held[session] = _Held(folded, NotificationState(state=folded.state))
        self._held.move_to_end(session)
        return held

    def _take(self, session: str, key: StreamKey, page: Sequence[Entry] | Foreign) -> bool:
        """Fold a page; return whether it was the last one."""
        held = self._held[session]
        began_at = held.folded.version
        try:
            if isinstance(page, Foreign):
                raise page
            for entry in page:
                recorded, held.folded = held.folded.next(key, entry)
                held.notified = next_state(held.notified, recorded, held.folded.state)
        except (DamageError, Foreign) as error:
            del self._held[session]
            if began_at:
                return False  # the server may have lost entries that are folded here: read again from the beginning
            if session not in self._damaged:
                log.warning("notifier: session %s is skipped: %s", session, error.text)
            self._damaged.add(session)
            return True
        return len(page) < PAGE_COUNT

    def _sort(self, sessions: Iterable[str]) -> None:
        """Mark the sessions with messages due; drop the oldest of the others."""
        now_ms = self._store.clock.now_ms()
        for session in sessions:
            held = self._held.get(session)
            if held is not None and not held.notified.state.newer and not is_over(held.notified, now_ms):
                self.live.add(session)
            else:
                self.live.discard(session)
        for session in list(self._held)[: max(len(self._held) - len(self.live) - KEPT_COUNT, 0)]:
            if session not in self.live:
                del self._held[session]
