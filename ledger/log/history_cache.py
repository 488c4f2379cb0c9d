"""A cache of past folds of long streams, from which a past state is computed without folding from the start.

Folds share their structure, so that keeping many is cheap. The cache may be discarded at any time, and is when the
server turns out to hold another history.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from ledger.core.errors import DamageError
from ledger.core.grants import Recorded
from ledger.core.times import format_time
from ledger.log.fold_room import SizedCache, fold_bytes, history_room_bytes, past_bytes
from ledger.log.history import LoggedEvent, Moment, is_until, last_until, logged
from ledger.log.tail import Folded, nothing_folded, read_folds
from ledger.stores.port import Store, StreamKey

FOLD_EVERY_VERSIONS: Final = 250
"""Versions between two cached folds; twice as many whenever those of one stream take too much room."""

PAGE_COUNT: Final = 250
"""Entries that are folded between two turns of the event loop."""


class Passed(NamedTuple):
    """An event, and the state before it."""

    before: Any
    recorded: Recorded


class _Marks:
    """The cached folds of one stream, in order of version; who folds takes the `turn`."""

    def __init__(self, key: StreamKey) -> None:
        self.turn = asyncio.Lock()
        self.folds: list[Folded[Any]] = [nothing_folded(key)]
        self.every_versions = FOLD_EVERY_VERSIONS

    def add(self, folded: Folded[Any]) -> bool:
        """Add a fold if it is the next one to be cached; return whether it was."""
        if folded.version != self.folds[-1].version + self.every_versions:
            return False
        self.folds.append(folded)
        return True

    @property
    def size_bytes(self) -> int:
        past = len(self.folds) - 1
        return past * past_bytes(self.every_versions) + fold_bytes(self.folds[-1].state)

    def thin(self) -> None:
        """Drop every other fold."""
        self.folds[:] = self.folds[::2]
        self.every_versions *= 2


class HistoryCache:
    """The cached folds of recently read streams. `most_bytes` is that of the process's setting by default."""

    def __init__(self, store: Store, most_bytes: int | None = None) -> None:
        self._store = store
        self._most_bytes = history_room_bytes() if most_bytes is None else most_bytes
        self._marks: SizedCache[_Marks] = SizedCache(self._most_bytes)
        self._redacted: dict[StreamKey, int] = {}

    def forget_before(self, key: StreamKey, redacted_version: int) -> None:
        """Drop the folds of a stream that were made before its last redaction, whose version the caller knows."""
        if redacted_version > self._redacted.get(key, 0):
            self._redacted[key] = redacted_version
            self._marks.drop(key)

    async def state_at(self, key: StreamKey, *, version: int | None = None, ms: int | None = None) -> Moment[Any]:
        """Return the state as of a version, or after the last event at or before a time (server ms).

        Raises InputError for a version that does not exist yet, UnknownSessionError before the first, DamageError.
        """
        try:
            return await self._state_at(key, version, ms)
        except DamageError:
            if not self._marks.drop(key):
                raise
            return await self._state_at(key, version, ms)

    async def page(self, key: StreamKey, after: int, limit: int) -> list[LoggedEvent]:
        """Return at most `limit` events after a version. Raises DamageError."""
        return [logged(key, one.recorded) for one in await self.passed(key, after, limit)]

    async def passed(self, key: StreamKey, after: int, limit: int) -> list[Passed]:
        """Return at most `limit` events after a version, each with the state before it. Raises DamageError.

        Readers of one stream take turns: the second one of a page finds the folds that the first one has made.
        """
        try:
            return await self._passed(key, after, limit)
        except DamageError:
            if not self._marks.drop(key):
                raise
            return await self._passed(key, after, limit)

    async def _state_at(self, key: StreamKey, version: int | None, ms: int | None) -> Moment[Any]:
        marks = self._marks_of(key)
        async with marks.turn:
            begin = [one for one in marks.folds if one.version == 0 or is_until(one.position, version, ms)][-1]
            at = version if ms is None else format_time(ms)
            return await last_until(key, begin, self._walk(key, marks, begin), at, version=version, ms=ms)

    async def _passed(self, key: StreamKey, after: int, limit: int) -> list[Passed]:
        marks = self._marks_of(key)
        async with marks.turn:
            begin = marks.folds[bisect_right(marks.folds, after, key=lambda one: one.version) - 1]
            before, found = begin.state, list[Passed]()
            async for recorded, folded in self._walk(key, marks, begin):
                if recorded.version > after:
                    found.append(Passed(before, recorded))
                before = folded.state
                if len(found) == limit:
                    break
            return found

    def _marks_of(self, key: StreamKey) -> _Marks:
        return self._marks.get(key) or self._keep(key, _Marks(key))

    def _keep(self, key: StreamKey, marks: _Marks) -> _Marks:
        while marks.size_bytes > self._most_bytes and len(marks.folds) > 1:
            marks.thin()
        for dropped in self._marks.put(key, marks, marks.size_bytes):
            self._redacted.pop(dropped, None)
        return marks

    async def _walk(
        self, key: StreamKey, marks: _Marks, begin: Folded[Any]
    ) -> AsyncIterator[tuple[Recorded, Folded[Any]]]:
        """Iterate over the events after a cached fold, with the fold after each. Safe to run concurrently."""
        async for recorded, folded in read_folds(self._store, key, begin, count=PAGE_COUNT):
            if marks.add(folded) and self._marks.get(key) is marks:
                self._keep(key, marks)
            yield recorded, folded
