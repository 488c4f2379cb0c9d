"""The streams whose state a gateway keeps: all that wait for somebody, and the others as long as there is room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping

from ledger.log.fold_room import fold_bytes
from ledger.stores.port import StreamKey
from workers.gateway.events.follower import Follower


class Followers(Mapping[StreamKey, Follower]):
    """Followers by stream. Idle ones, of which nothing is pending, take no more than `most_bytes` together.

    The last one that is kept stays, whatever it takes.
    """

    def __init__(self, most_bytes: int) -> None:
        self.pending: dict[StreamKey, Follower] = {}
        """Those of which something is pending."""
        self._most_bytes = most_bytes
        self._held: dict[StreamKey, Follower] = {}
        self._idle: OrderedDict[StreamKey, int] = OrderedDict()
        self._idle_bytes = 0

    def __getitem__(self, key: StreamKey) -> Follower:
        return self._held[key]

    def __iter__(self) -> Iterator[StreamKey]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def keep(self, follower: Follower, wanted: Container[StreamKey]) -> None:
        """Keep a follower as it is now, as the one used last, and drop idle ones for which there is no room.

        Those that have a reader, or are `wanted`, stay.
        """
        self.drop(follower.key)
        self._held[follower.key] = follower
        if follower.has_pending:
            self.pending[follower.key] = follower
            return
        self._idle[follower.key] = size_bytes = fold_bytes(follower.state)
        self._idle_bytes += size_bytes
        while self._idle_bytes > self._most_bytes:
            oldest = next((one for one in self._idle if not (self._held[one].watchers or one in wanted)), None)
            if oldest is None or oldest == follower.key:
                return
            self.drop(oldest)

    def drop(self, key: StreamKey) -> Follower | None:
        """Drop the follower of a stream, and return it."""
        self.pending.pop(key, None)
        self._idle_bytes -= self._idle.pop(key, 0)
        return self._held.pop(key, None)
