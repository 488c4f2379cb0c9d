"""The latest events in memory, shared by all readers: a reader is only a position, so a slow one costs nothing."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

import msgspec

from ledger.stores.port import StreamKey
from workers.gateway.events.frames import Frame

SESSION_BYTES: Final = 4 * 1024 * 1024
"""Size of one session's ring."""

OVERHEAD_BYTES: Final = 700
"""Memory of an event besides its data and its request."""

_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
"""Types of values with nothing in them, which most are."""


class Item:
    """An event, and the reader's position after it."""

    __slots__ = ("bytes", "frame", "place")

    def __init__(self, frame: Frame | None, place: str) -> None:
        self.frame = frame
        """None means that the log lost entries or content: readers start again with a snapshot."""
        self.place = place
        self.bytes = 0
        """About the memory that it takes in a ring; counted when it is put in."""


class Ring:
    """Events in order, numbered from the first one published by this process; the oldest are dropped.

    A reader further behind is disconnected, and starts again with a snapshot.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._items: list[Item] = []
        self._first = 0
        self.bytes = 0
        """About the memory that the events take."""
        self.grown = asyncio.Event()

    @property
    def end(self) -> int:
        """Return the number of the next event."""
        return self._first + len(self._items)

    def push(self, item: Item) -> None:
        item.bytes = _size(item.frame)
        self._items.append(item)
        self.bytes += item.bytes
        if self.bytes > self._bytes_max:
            self._drop_half()
        self.grown.set()

    def _drop_half(self) -> None:
        """Drop the older half. The newest stays, however large it is: readers that keep up wait for it."""
        count = len(self._items) // 2
        self.bytes -= sum(item.bytes for item in self._items[:count])
        del self._items[:count]
        self._first += count

    def forget(self, key: StreamKey) -> None:
        """Drop what events of a stream said, after content of it was redacted: readers still before them start again."""
        for item in self._items:
            if item.frame is not None and item.frame.key == key:
                self.bytes += OVERHEAD_BYTES - item.bytes
                item.frame, item.bytes = None, OVERHEAD_BYTES

    def since(self, number: int, count_max: int) -> list[Item] | None:
        """Return the events from this number on; None when some were dropped already."""
        begin = number - self._first
        return None if begin < 0 else self._items[begin : begin + count_max]


def _size(frame: Frame | None) -> int:
    """Return about the memory that an event takes, in bytes: the agent chooses how many values its request has."""
    if frame is None:
        return OVERHEAD_BYTES
    return OVERHEAD_BYTES + len(frame.data) + (0 if frame.request is None else memory_of(frame.request))


def memory_of(value: Any) -> int:
    """Return the memory of a decoded value and of all that is in it, in bytes; what is shared counts at each place."""
    size_bytes, left = 0, [value]
    while left:
        one = left.pop()
        size_bytes += sys.getsizeof(one)
        kind = type(one)
        if kind is dict:
            left.extend(one.keys())
            left.extend(one.values())
        elif kind is list or kind is tuple:
            left.extend(one)
        elif kind not in _PLAIN and isinstance(one, msgspec.Struct):
            left.extend(getattr(one, name) for name in one.__struct_fields__)
    return size_bytes
