"""The streams whose state a gateway keeps, each folded entry by entry into frames.

Kept are all that wait for somebody, and the others as long as there is room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from ledger.log.fold_room import fold_bytes
from ledger.log.tail import Folded, fold_entries, nothing_folded
from ledger.session.state import SessionState
from ledger.stores.port import Entry, Position, StreamKey
from workers.gateway.descriptions import forget_description
from workers.gateway.events.frames import Frame, frames_of
from workers.gateway.events.ring import SESSION_BYTES, Ring


class Follower:
    """The state of a stream as of the last entry that was sent."""

    def __init__(self, key: StreamKey) -> None:
        self.key = key
        self.folded: Folded[Any] = nothing_folded(key)
        self.lineage: tuple[str, ...] = ()
        self.watchers = 0
        self.ring: Ring | None = None
        self.replays: dict[tuple[str, str], tuple[object, bytes]] = {}
        """The serialized pending requests for new readers, by form and request."""

    @property
    def state(self) -> Any:
        return self.folded.state

    @property
    def position(self) -> Position:
        return self.folded.position

    @property
    def has_pending(self) -> bool:
        return isinstance(self.state, SessionState) and bool(self.state.pending)

    def watch(self) -> Ring:
        """Start to keep this stream's own events for its readers."""
        self.watchers += 1
        if self.ring is None:
            self.ring = Ring(SESSION_BYTES)
        return self.ring

    def unwatch(self) -> None:
        self.watchers -= 1
        if self.watchers == 0:
            self.ring = None

    def pass_over(self, entries: Iterable[Entry]) -> None:
        """Fold entries that were sent before. Raises DamageError."""
        self.folded = fold_entries(self.key, self.folded, entries)

    def take(self, entry: Entry) -> list[Frame]:
        """Fold the next entry and return its frames. Raises DamageError."""
        before = self.folded.state
        recorded, self.folded = self.folded.next(self.key, entry)
        if self.replays:
            self.replays.clear()
        frames = frames_of(self.key, recorded, before, self.folded.state, self.lineage)
        self._forget_settled(before, recorded.event)
        return frames

    def _forget_settled(self, before: Any, event: Any) -> None:
        """Drop what was kept of a request that this event settled."""
        request_id = getattr(event, "request_id", None)
        if isinstance(before, SessionState) and isinstance(request_id, str) and request_id not in self.state.pending:
            request = before.pending.get(request_id)
            if request is not None:
                forget_description(self.key.id, request)


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
