"""The times at which streams are looked at, the nearest first. An alarm that is no longer wanted leaves nothing behind."""

from __future__ import annotations

import heapq
from typing import Final

from ledger.stores.port import StreamKey

_DROPPED_MIN_COUNT: Final = 64
"""So many dropped alarms are kept before they are swept out, however few the others are."""


class Alarm:
    """One time (server ms) of one stream."""

    __slots__ = ("at_ms", "is_dropped", "key")

    def __init__(self, at_ms: int, key: StreamKey) -> None:
        self.at_ms = at_ms
        self.key = key
        self.is_dropped = False


class Alarms:
    """Alarms in order of their times, and of their setting where these are the same."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Alarm]] = []
        self._set_count = 0
        self._dropped_count = 0

    def __len__(self) -> int:
        return len(self._heap) - self._dropped_count

    @property
    def held_count(self) -> int:
        """Return the number of alarms in memory: at most twice those that are wanted, and a few."""
        return len(self._heap)

    def add(self, at_ms: int, key: StreamKey) -> Alarm:
        alarm = Alarm(at_ms, key)
        self._set_count += 1
        heapq.heappush(self._heap, (at_ms, self._set_count, alarm))
        return alarm

    def nearest(self) -> Alarm | None:
        """Return the next alarm, which stays until it is dropped."""
        while self._heap and self._heap[0][2].is_dropped:
            heapq.heappop(self._heap)
            self._dropped_count -= 1
        return self._heap[0][2] if self._heap else None

    def drop(self, alarm: Alarm) -> None:
        """Forget an alarm; one that was dropped before is no problem."""
        if alarm.is_dropped:
            return
        alarm.is_dropped = True
        self._dropped_count += 1
        if self._dropped_count > max(_DROPPED_MIN_COUNT, len(self._heap) // 2):
            self._heap = [one for one in self._heap if not one[2].is_dropped]
            heapq.heapify(self._heap)
            self._dropped_count = 0
