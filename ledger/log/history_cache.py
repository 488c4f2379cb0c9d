"""A cache of past folds of long streams, from which a past state is computed without folding from the start.

Folds share their structure, so that keeping many is cheap. The cache may be discarded at any time, and is when the
server turns out to hold another history.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any, Final

from ledger.core.errors import DamageError
from ledger.core.grants import Recorded
from ledger.core.times import format_time
from ledger.log.history import LoggedEvent, Moment, is_until, last_until, logged
from ledger.log.tail import Folded, nothing_folded, read_folds
from ledger.stores.port import Store, StreamKey

FOLD_EVERY_VERSIONS: Final = 250
"""Versions between two cached folds."""

PAGE_COUNT: Final = 250
"""Entries that are folded between two turns of the event loop."""

CACHED_STREAMS_COUNT: Final = 16
"""Streams whose folds are cached; the least recently used one is evicted."""


class HistoryCache:
    """The cached folds of recently read streams of one kind."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folds: OrderedDict[StreamKey, list[Folded[Any]]] = OrderedDict()
        self._redacted: dict[StreamKey, int] = {}

    def forget_before(self, key: StreamKey, redacted_version: int) -> None:
        """Drop the folds of a stream that were made before its last redaction, whose version the caller knows."""
        if redacted_version > self._redacted.get(key, 0):
            self._redacted[key] = redacted_version
            self._folds.pop(key, None)

    async def state_at(self, key: StreamKey, *, version: int | None = None, ms: int | None = None) -> Moment[Any]:
        """Return the state as of a version, or after the last event at or before a time (server ms).

        Raises InputError for a version that does not exist yet, UnknownSessionError before the first, DamageError.
        """
        try:
            return await self._state_at(key, version, ms)
        except DamageError:
            if self._folds.pop(key, None) is None:
                raise
            return await self._state_at(key, version, ms)

    async def page(self, key: StreamKey, after: int, limit: int) -> list[LoggedEvent]:
        """Return at most `limit` events after a version. Raises DamageError."""
        try:
            return await self._page(key, after, limit)
        except DamageError:
            if self._folds.pop(key, None) is None:
                raise
            return await self._page(key, after, limit)

    async def _state_at(self, key: StreamKey, version: int | None, ms: int | None) -> Moment[Any]:
        folds = self._folds_of(key)
        begin = [one for one in folds if one.version == 0 or is_until(one.position, version, ms)][-1]
        at = version if ms is None else format_time(ms)
        return await last_until(key, begin, self._walk(key, folds, begin), at, version=version, ms=ms)

    async def _page(self, key: StreamKey, after: int, limit: int) -> list[LoggedEvent]:
        folds = self._folds_of(key)
        found: list[LoggedEvent] = []
        async for recorded, _ in self._walk(key, folds, folds[min(after // FOLD_EVERY_VERSIONS, len(folds) - 1)]):
            if recorded.version > after:
                found.append(logged(key, recorded))
            if len(found) == limit:
                break
        return found

    def _folds_of(self, key: StreamKey) -> list[Folded[Any]]:
        folds = self._folds.setdefault(key, [nothing_folded(key)])
        self._folds.move_to_end(key)
        while len(self._folds) > CACHED_STREAMS_COUNT:
            dropped, _ = self._folds.popitem(last=False)
            self._redacted.pop(dropped, None)
        return folds

    async def _walk(
        self, key: StreamKey, folds: list[Folded[Any]], begin: Folded[Any]
    ) -> AsyncIterator[tuple[Recorded, Folded[Any]]]:
        """Iterate over the events after a cached fold, with the fold after each. Safe to run concurrently."""
        async for recorded, folded in read_folds(self._store, key, begin, count=PAGE_COUNT):
            if folded.version == len(folds) * FOLD_EVERY_VERSIONS:
                folds.append(folded)
            yield recorded, folded
