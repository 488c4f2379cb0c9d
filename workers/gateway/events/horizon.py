"""The time up to which everything was sent, which keeps the ids of the whole ledger's events short. Pure.

Wake-ups of one server arrive over one connection, in the order of the appends. So when a wake-up of one millisecond has
arrived, all of the milliseconds before it have. Nodes of a cluster have separate clocks and connections, one of which
may just have broken: there the horizon is delayed by a fixed time. It is always delayed by the largest disorder seen so
far. It can still be wrong, so resuming counts the entries that it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.stores.port import Position, StreamKey
from workers.gateway.events.cursors import Ahead, FeedCursor, tag_of

HOLD_MS_MAX: Final = 5000
HOLD_MARGIN_MS: Final = 50
HOLD_OF_NODES_MS: Final = 2000
"""Delay with several nodes: longer than the replacement of a node by its replica takes."""

AHEAD_COUNT_MAX: Final = 400
"""Streams that an id may name; with more, neither unread entries nor the nodes' delay hold the horizon back."""


class Horizon:
    """Everything at or before `ms` was sent; `ahead` has what was sent besides."""

    def __init__(self, ledger: str, nodes_count: int = 1) -> None:
        self.ledger = ledger
        self._hold_of_nodes_ms = HOLD_OF_NODES_MS if nodes_count > 1 else 0
        self.ms = 0
        self.total = 0
        self._heard_ms = 0
        self._hold_ms = 0
        self._ahead: dict[StreamKey, tuple[str, Position]] = {}
        self._behind: dict[StreamKey, int] = {}
        self.frozen = False
        """True while wake-ups may have been lost."""

    def begin(self, now_ms: int, heads: Mapping[StreamKey, Position]) -> None:
        """Start at now: every stream was read up to its head."""
        self._heard_ms = max(self._heard_ms, now_ms)
        self.total = sum(head.version for head in heads.values())
        self._ahead = {key: (tag_of(key), head) for key, head in heads.items() if head.ms > now_ms - HOLD_MS_MAX}
        self._advance()

    def heard(self, ms: int) -> None:
        """Record the arrival of a wake-up for an entry of this time."""
        self._heard_ms = max(self._heard_ms, ms)

    def behind(self, key: StreamKey, ms: int) -> None:
        """Record that an entry of this time is known and not read yet."""
        self._behind.setdefault(key, ms)

    def caught_up(self, key: StreamKey) -> None:
        self._behind.pop(key, None)

    def told(self, key: StreamKey, before: Position, at: Position) -> None:
        """Record that an entry was sent."""
        if at.ms <= self.ms:
            self._hold_ms = min(max(self._hold_ms, self._heard_ms - at.ms + HOLD_MARGIN_MS), HOLD_MS_MAX)
        self.total += at.version - before.version
        self._ahead[key] = (tag_of(key), at)

    def lost(self, key: StreamKey, before: Position, now: Position) -> None:
        """Record that the server has fewer entries of a stream than were sent."""
        self.total += now.version - before.version
        self._ahead.pop(key, None)

    def cursor(self, partly: tuple[StreamKey, Position, int] | None = None) -> FeedCursor:
        """Return the position of a reader who has received everything so far.

        `partly` adds, for one stream, the number of events received of the entry after the given position.
        """
        self._advance()
        ahead = {tag: Ahead(at.version) for tag, at in self._ahead.values()}
        if partly is not None:
            key, at, parts = partly
            ahead[tag_of(key)] = Ahead(at.version, parts)
        return FeedCursor(self.ledger, self.ms, self.total, ahead)

    def _advance(self) -> None:
        if self.frozen:
            return
        is_short = len(self._ahead) < AHEAD_COUNT_MAX
        limit = min(self._behind.values(), default=self._heard_ms) if is_short else self._heard_ms
        # With very many streams an id would be too long; a shorter one that sometimes cannot be resumed is better.
        hold_ms = max(self._hold_ms, self._hold_of_nodes_ms) if is_short else self._hold_ms
        ms = min(limit, self._heard_ms) - 1 - hold_ms
        if ms > self.ms:
            self.ms = ms
            self._ahead = {key: one for key, one in self._ahead.items() if one[1].ms > ms}
