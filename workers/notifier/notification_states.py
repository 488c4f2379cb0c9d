"""The books of many sessions, kept up with their streams: those with something to say, and the ones used last."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from ledger import Ledger
from ledger.core.errors import DamageError
from ledger.core.limits import PAGE_COUNT
from ledger.session.state import SessionState
from ledger.stores.port import Entry, Foreign, StreamKey
from projections.folding import Folded, nothing
from workers.notifier.notification_state import NotificationState, next_book
from workers.notifier.planning import is_over

log = logging.getLogger(__name__)

WAITING_SESSIONS_MAX: Final = 100_000
KEPT_COUNT: Final = 1024
"""Books of sessions with nothing to say that are kept all the same: what moves next has mostly just moved."""


class _Held(msgspec.Struct):
    folded: Folded
    book: NotificationState


class NotificationStates:
    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._reading = asyncio.Lock()
        self._damaged: set[str] = set()
        self.live: set[str] = set()
        """The sessions with something to say, now or later."""

    async def of_all(self) -> list[NotificationState]:
        """The books of all sessions where something waits, or has ended after somebody was told. Raises StoreError."""
        waiting = await self._store.due(None, WAITING_SESSIONS_MAX)
        await self.refresh({*self.live, *(session for session, _ in waiting)})
        return [self._held[session].book for session in self.live if session in self._held]

    async def refresh(self, sessions: Collection[str]) -> list[NotificationState]:
        """The books of these sessions as their streams are now; those that are damaged are left out, and told."""
        async with self._reading:
            await self._read(set(sessions))
            self._sort(sessions)
            return [self._held[session].book for session in sessions if session in self._held]

    async def _read(self, waiting: set[str]) -> None:
        while waiting:
            asked = sorted(waiting)
            keys = [StreamKey("session", session) for session in asked]
            pages = await self._store.read_many(
                [(key, self._hold(session).folded.position) for session, key in zip(asked, keys, strict=True)]
            )
            waiting = {
                session
                for session, key, page in zip(asked, keys, pages, strict=True)
                if not self._take(session, key, page)
            }

    def _hold(self, session: str) -> _Held:
        held = self._held.get(session)
        if held is None:
            folded = nothing(StreamKey("session", session))
            assert isinstance(folded.state, SessionState)
            held = self._held[session] = _Held(folded, NotificationState(state=folded.state))
        self._held.move_to_end(session)
        return held

    def _take(self, session: str, key: StreamKey, page: Collection[Entry]) -> bool:
        """Fold a page; whether there is nothing more to read."""
        held = self._held[session]
        began_at = held.folded.version
        try:
            for entry in page:
                recorded, held.folded = held.folded.next(key, entry)
                assert isinstance(held.folded.state, SessionState)
                held.book = next_book(held.book, recorded, held.folded.state)
        except (DamageError, Foreign) as error:
            del self._held[session]
            if began_at:
                return False  # the server may have lost what had been folded here: once more, from the beginning
            if session not in self._damaged:
                log.warning("notifier: session %s is passed over: %s", session, error.text)
            self._damaged.add(session)
            return True
        return len(page) < PAGE_COUNT

    def _sort(self, sessions: Iterable[str]) -> None:
        """Which of them have something to say; what is not needed is forgotten."""
        now_ms = self._store.clock.now_ms()
        for session in sessions:
            held = self._held.get(session)
            if held is not None and not held.book.state.newer and not is_over(held.book, now_ms):
                self.live.add(session)
            else:
                self.live.discard(session)
        for session in list(self._held)[: max(len(self._held) - len(self.live) - KEPT_COUNT, 0)]:
            if session not in self.live:
                del self._held[session]
