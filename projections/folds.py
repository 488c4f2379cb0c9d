"""A cache of the folds of streams, bounded by the room that they take."""

from __future__ import annotations

from ledger.log.fold_room import SizedCache, fold_bytes, projected_room_bytes
from ledger.log.tail import Folded
from ledger.stores.port import StreamKey
from projections.projection import StreamState


class FoldCache:
    """A cache of the most recently used folds. `most_bytes` is that of the process's setting by default."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self._held: SizedCache[Folded[StreamState]] = SizedCache(
            projected_room_bytes() if most_bytes is None else most_bytes
        )

    def get(self, key: StreamKey) -> Folded[StreamState] | None:
        return self._held.get(key)

    def put(self, key: StreamKey, folded: Folded[StreamState]) -> None:
        self._held.put(key, folded, fold_bytes(folded.state) + len(folded.last.payload))

    def drop(self, key: StreamKey) -> None:
        self._held.drop(key)
