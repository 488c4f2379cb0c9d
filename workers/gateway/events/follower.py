"""One stream, folded entry by entry into frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.log.entries import read_entry
from ledger.log.plans import Fold
from ledger.session.state import SessionState
from ledger.stores.port import START, Entry, StreamKey
from workers.gateway.events.frames import Frame, frames_of
from workers.gateway.events.ring import SESSION_BYTES, Ring


class Follower:
    """The state of a stream as of the last entry that was sent."""

    def __init__(self, key: StreamKey, fold: Fold[Any]) -> None:
        self.key = key
        self._fold = fold
        self.state = fold.initial(key)
        self.position = START
        self.payload = b""
        self.lineage: tuple[str, ...] = ()
        self.watchers = 0
        self.ring: Ring | None = None
        self.replays: dict[tuple[str, str], tuple[object, bytes]] = {}
        """The serialized pending requests for new readers, by form and request."""

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

    def pass_over(self, entries: Sequence[Entry]) -> None:
        """Fold entries that were sent before. Raises DamageError."""
        for entry in entries:
            recorded = read_entry(self.key, entry, self.position, self.payload)
            self.state = self._fold.evolve(self.state, recorded)
            self.position, self.payload = entry.position, entry.payload

    def take(self, entry: Entry) -> list[Frame]:
        """Fold the next entry and return its frames. Raises DamageError."""
        recorded = read_entry(self.key, entry, self.position, self.payload)
        before = self.state
        self.state = self._fold.evolve(before, recorded)
        self.position, self.payload = entry.position, entry.payload
        if self.replays:
            self.replays.clear()
        return frames_of(self.key, recorded, before, self.state, self.lineage)
