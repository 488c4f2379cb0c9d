"""A bounded cache of the folds of streams."""

from __future__ import annotations

from collections import OrderedDict

from ledger.log.tail import Folded
from ledger.stores.port import StreamKey
from projections.projection import StreamState

FOLDS_KEPT_COUNT = 1024
FOLDS_KEPT_EVENTS = 200_000
"""Total events behind the cached folds: the fold of a long session takes more room than that of a short one."""


class FoldCache:
    """A cache of the most recently used folds."""

    def __init__(self, count: int = FOLDS_KEPT_COUNT, events: int = FOLDS_KEPT_EVENTS) -> None:
        self._count = count
        self._events = events
        self._held: OrderedDict[StreamKey, Folded[StreamState]] = OrderedDict()
        self._held_events = 0

    def get(self, key: StreamKey) -> Folded[StreamState] | None:
        return self._held.get(key)

    def put(self, key: StreamKey, folded: Folded[StreamState]) -> None:
        self.drop(key)
        self._held[key] = folded
        self._held_events += folded.version
        while len(self._held) > self._count or (self._held_events > self._events and len(self._held) > 1):
            self.drop(next(iter(self._held)))

    def drop(self, key: StreamKey) -> None:
        folded = self._held.pop(key, None)
        if folded is not None:
            self._held_events -= folded.version
