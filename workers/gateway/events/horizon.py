"""Up to when everything was told: what makes the ids of the whole ledger's events short. Pure.

Wake-ups of one server come over one connection, in the order of the appends. So when one of a millisecond has come, all
of the milliseconds before it have. Nodes of a cluster have clocks and connections of their own, one of which may just have
broken: there the horizon is held back by a while, and everywhere by as much as was ever found to be out of order. It may
still be wrong; who resumes counts what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.stores.port import Position, StreamKey
from workers.gateway.events.cursors import Ahead, FeedCursor, tag_of

HOLD_MS_MAX: Final = 5000
HOLD_MARGIN_MS: Final = 50
HOLD_OF_NODES_MS: Final = 2000
"""With several nodes: longer than it takes to hear of one again that was replaced by its replica."""

AHEAD_COUNT_MAX: Final = 400
"""Streams that an id may name; with more, what is not read yet is left out of the account."""


class Horizon:
    """Everything at or before `ms` was told; `ahead` is what was told besides."""

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
        """While wake-ups may have been lost."""

    def begin(self, now_ms: int, heads: Mapping[StreamKey, Position]) -> None:
        """Everything up to now was read: every stream up to its head."""
        self._heard_ms = max(self._heard_ms, now_ms)
        self.total = sum(head.version for head in heads.values())
        self._ahead = {key: (tag_of(key), head) for key, head in heads.items() if head.ms > now_ms - HOLD_MS_MAX}
        self._advance()

    def heard(self, ms: int) -> None:
        """The wake-up of an entry of this time has come."""
        self._heard_ms = max(self._heard_ms, ms)

    def behind(self, key: StreamKey, ms: int) -> None:
        """An entry of this time is known of and not read yet."""
        self._behind.setdefault(key, ms)

    def caught_up(self, key: StreamKey) -> None:
        self._behind.pop(key, None)

    def told(self, key: StreamKey, before: Position, at: Position) -> None:
        """An entry was told."""
        if at.ms <= self.ms:
            self._hold_ms = min(max(self._hold_ms, self._heard_ms - at.ms + HOLD_MARGIN_MS), HOLD_MS_MAX)
        self.total += at.version - before.version
        self._ahead[key] = (tag_of(key), at)

    def lost(self, key: StreamKey, before: Position, now: Position) -> None:
        """The server has less of a stream than was told."""
        self.total += now.version - before.version
        self._ahead.pop(key, None)

    def cursor(self, partly: tuple[StreamKey, Position, int] | None = None) -> FeedCursor:
        """Where a reader is who was told everything so far.

        `partly`: and of one stream, after the entry there, the first so many events of the next.
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
        # With very many streams an id would be too long: rather one that is now and then of no use.
        hold_ms = max(self._hold_ms, self._hold_of_nodes_ms) if is_short else self._hold_ms
        ms = min(limit, self._heard_ms) - 1 - hold_ms
        if ms > self.ms:
            self.ms = ms
            self._ahead = {key: one for key, one in self._ahead.items() if one[1].ms > ms}
