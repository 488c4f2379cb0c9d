"""The memory that a process gives to cached folds: an estimate for each fold, the bound on all, and the caches' order."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from ledger.core.errors import InputError
from ledger.core.policy import Layer, PolicySource
from ledger.policy.stored_rules import RulesState
from ledger.project import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey

V = TypeVar("V")

VARIABLE: Final = "PERMISSION_LEDGER_FOLDS_MB"
"""The room (MB) of all cached folds of a process."""

DEFAULT_MB: Final = 256
LEAST_MB: Final = 8
MOST_MB: Final = 1024 * 1024
MB: Final = 1024 * 1024

STREAM_BYTES: Final = 6000
"""The memory that a stream takes besides what its fold holds."""

PENDING_BYTES: Final = 4000
GRANT_BYTES: Final = 900
CLIENT_BYTES: Final = 400
NOTED_BYTES: Final = 200
PASSED_BYTES: Final = 60
_RULE_BYTES: Final = 150
_BYTES_OF_JSON: Final = 4
"""The room of parsed JSON for each byte of its text."""


def all_caches_bytes() -> int:
    """Return the setting of this process. Raises InputError for anything but a whole number of MB within the bounds."""
    word = os.environ.get(VARIABLE, "").strip()
    if not word:
        return DEFAULT_MB * MB
    if not (word.isascii() and word.isdecimal() and LEAST_MB <= int(word[:9]) <= MOST_MB and len(word) <= 9):
        raise InputError(
            f"{VARIABLE} is `{word[:40]}`; it must be a whole number of megabytes from {LEAST_MB} to {MOST_MB}"
        )
    return int(word) * MB


CacheName = Literal["streams", "projected", "history", "outlines", "sealed", "descriptions"]

SHARES: Final[dict[CacheName, int]] = {
    "streams": 2,
    "projected": 4,
    "history": 8,
    "outlines": 16,
    "sealed": 16,
    "descriptions": 16,
}
"""The share of the room, one part in so many, of each cache.

They are the folds of open streams, those of a projector, past ones, outlines of sessions, and the entries of sealed
sessions that were read. A gateway has no projector: its descriptions of pending requests take a part of that share.
"""


def cache_bytes(cache: CacheName) -> int:
    """Return the bytes that a cache of this process may take. Raises InputError as `all_caches_bytes`."""
    return all_caches_bytes() // SHARES[cache]


def fold_bytes(state: Any) -> int:
    """Return an estimate of the memory that a fold takes, from what it holds."""
    if isinstance(state, SessionState):
        held = len(state.pending) * PENDING_BYTES + len(state.grants) * GRANT_BYTES + state.settled.size_bytes
        held += len(state.clients) * CLIENT_BYTES + len(state.noted) * NOTED_BYTES
        return STREAM_BYTES + held
    if isinstance(state, RulesState):
        return STREAM_BYTES + _policy_bytes(state.source)
    if isinstance(state, ProjectState):
        return STREAM_BYTES + len(state.grants) * GRANT_BYTES
    return STREAM_BYTES


def past_bytes(versions: int) -> int:
    """Return an estimate of the memory that a past fold takes beside a later one, which shares all but so many versions."""
    return STREAM_BYTES + versions * PASSED_BYTES


def _policy_bytes(source: PolicySource | None) -> int:
    return 0 if source is None else sum(map(_layer_bytes, source.layers))


def _layer_bytes(layer: Layer) -> int:
    if layer.config is not None and not layer.lines:
        return len(msgspec.json.encode(layer.config)) * _BYTES_OF_JSON
    return (len(layer.rules) + len(layer.lines) + len(layer.demands)) * _RULE_BYTES


class SizedCache(Generic[V]):
    """Values by stream, the least recently used ones dropped when all together take more than `most_bytes`.

    The last one is kept whatever it takes.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[StreamKey, tuple[V, int]] = OrderedDict()
        self.size_bytes = 0

    def get(self, key: StreamKey) -> V | None:
        """Return a value, which counts as used now."""
        held = self._held.get(key)
        if held is None:
            return None
        self._held.move_to_end(key)
        return held[0]

    def put(self, key: StreamKey, value: V, size_bytes: int) -> list[StreamKey]:
        """Keep a value, or its new size, as the one used last; return the streams that were dropped for it."""
        self.drop(key)
        self._held[key] = (value, size_bytes)
        self.size_bytes += size_bytes
        dropped: list[StreamKey] = []
        while self.size_bytes > self._most_bytes and len(self._held) > 1:
            dropped.append(next(iter(self._held)))
            self.drop(dropped[-1])
        return dropped

    def drop(self, key: StreamKey) -> bool:
        """Drop a value; return False where there is none."""
        held = self._held.pop(key, None)
        if held is not None:
            self.size_bytes -= held[1]
        return held is not None

    def __contains__(self, key: StreamKey) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[StreamKey]:
        return iter(self._held)
