"""Settling the sessions that the index of deadlines names, whoever else does the same at the same time.

The index is a hint. What is due is decided by each session's stream; where the index is wrong it is corrected, if it
still says what was seen.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Final

from ledger import Ledger
from ledger.core.errors import LedgerError, StoreError
from ledger.log.plans import SETTLE
from ledger.session.state import SessionState
from ledger.stores.port import NOTHING_DUE, Due

log = logging.getLogger(__name__)

SETTLED_AT_ONCE_COUNT: Final = 64
"""Sessions that are settled side by side."""

DUE_PAGE_COUNT: Final = 2000
"""Sessions that are taken from the index at a time."""

NO_PROGRESS_SECONDS: Final = 0.005
"""A pause where the index says that something is due and its stream says: not yet."""

STUCK_MS: Final = 2000
"""What is still due so long after its deadline, although it was settled, will not be ended by trying again."""


class Settler:
    """Ends what is due, and keeps the index straight. Remembers what it could not end, so as not to try for ever."""

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        self._streams = ledger.streams
        self._stopped = False
        self._passed_over: dict[str, int | None] = {}
        """Sessions that cannot be settled, by what the index says of them: another deadline is another try."""
        self._told: set[str] = set()
        self._rung: set[str] = set()

    def woken(self, session: str) -> None:
        """Somebody wrote to this session, and so settled it first: another worker, most likely."""
        self._rung.add(session)

    def stop(self) -> None:
        """Begin no further session."""
        self._stopped = True

    def give_another_try(self) -> None:
        """At every sweep: a damaged stream may have been repaired, a newer worker may have gone on with a session."""
        self._passed_over.clear()

    async def earliest_ms(self, partitions: list[int] | None = None) -> int | None:
        """The nearest deadline (server ms) of a session that can be settled. Raises StoreError."""
        found = await self._store.due(None, len(self._passed_over) + 1, partitions)
        return next((at_ms for session, at_ms in found if not self._is_passed_over(session, at_ms)), None)

    async def settle_due(self) -> int:
        """Settle until nothing is due; gives how many sessions that were. Raises StoreError."""
        seen: dict[str, int] = {}
        count, late_ms = 0, 0
        while not self._stopped:
            self._rung.clear()
            now_ms = await self._store.now_ms()
            due = await self._due(now_ms)
            if not due:
                break
            again = [one for one in due if seen.get(one[0]) == one[1]]
            fresh = [one for one in due if seen.get(one[0]) != one[1]]
            seen.update(fresh)
            late = await self._settle_many(fresh)
            count, late_ms = count + len(late), max(late_ms, *late, 0)
            await self._correct_many(again, now_ms)
        if count:
            log.info("expiry: settled %d sessions, the last %d ms after its deadline", count, late_ms)
        return count

    async def _due(self, now_ms: int) -> list[tuple[str, int]]:
        page = await self._store.due(now_ms, DUE_PAGE_COUNT + len(self._passed_over))
        due = [(session, at) for session, at in page if at is not None and not self._is_passed_over(session, at)]
        # Another worker has the same page: in another order, they meet in the middle.
        random.shuffle(due)
        return due

    def _is_passed_over(self, session: str, at_ms: int | None) -> bool:
        return session in self._passed_over and self._passed_over[session] == at_ms

    async def _settle_many(self, due: list[tuple[str, int]]) -> list[int]:
        """How long after its deadline each of them was settled, in ms."""
        left = iter(due)
        late_ms: list[int] = []

        async def settle_some() -> None:
            for session, at_ms in left:
                if self._stopped:
                    return
                if session not in self._rung:
                    late_ms.append(await self._settle(session, at_ms))

        await _side_by_side(settle_some, len(due))
        return late_ms

    async def _settle(self, session: str, at_ms: int) -> int:
        stream = self._streams.session(session)
        try:
            await stream.submit(SETTLE)
        except StoreError:
            raise
        except LedgerError as error:
            self._pass_over(session, at_ms, error.text)
            return 0
        return max(stream.position.ms - at_ms, 0)

    async def _correct_many(self, due: list[tuple[str, int]], now_ms: int) -> None:
        """These were settled and still are in the index as they were: it is wrong, or we are too early."""
        if not due:
            return
        changed = await asyncio.gather(*(self._correct(session, at_ms, now_ms) for session, at_ms in due))
        if not any(changed):
            await asyncio.sleep(NO_PROGRESS_SECONDS)

    async def _correct(self, session: str, at_ms: int, now_ms: int) -> bool:
        stream = self._streams.session(session)
        try:
            state: SessionState = (await stream.submit(SETTLE)).state
        except StoreError:
            raise
        except LedgerError as error:
            self._pass_over(session, at_ms, error.text)
            return True
        at = stream.position
        next_ms = self._streams.session_fold.next_due_ms(state)
        if next_ms == at_ms:
            if state.newer or now_ms - at_ms > STUCK_MS:
                why = "it holds events of a newer version; upgrade this worker" if state.newer else "it stays due"
                self._pass_over(session, at_ms, why)
                return True
            return False
        to = Due(next_ms) if next_ms is not None or state.pending else NOTHING_DUE
        await self._store.correct_due(session, at_ms, to, at=at)
        return True

    def _pass_over(self, session: str, at_ms: int, why: str) -> None:
        self._passed_over[session] = at_ms
        if session not in self._told:
            self._told.add(session)
            log.error("expiry: passing over session `%s`, which is due: %s", session, why)


async def _side_by_side(work: Callable[[], Coroutine[None, None, None]], count: int) -> None:
    """Run `work` as often as there is something to do, at most so many at once; the first error ends the others."""
    workers = min(count, SETTLED_AT_ONCE_COUNT)
    tasks = [asyncio.create_task(work(), name="expiry settle") for _ in range(workers)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
