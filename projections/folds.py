"""The fold of a stream up to an entry, and a bounded cache of such folds."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ledger.access.state import AccessState, evolve_access
from ledger.core.grants import Recorded
from ledger.log.entries import read_entry
from ledger.project.state import ProjectState, evolve_project
from ledger.session import evolve
from ledger.session.state import SessionState
from ledger.stores.port import START, Entry, Position, StreamKey
from projections.projection import StreamState

FOLDS_KEPT_COUNT = 1024
FOLDS_KEPT_EVENTS = 200_000
"""Total events behind the cached folds: the fold of a long session takes more room than that of a short one."""


class Folded(NamedTuple):
    """The state as of an entry, and that entry's bytes, to which the next entry is chained."""

    state: StreamState
    position: Position = START
    payload: bytes = b""

    @property
    def version(self) -> int:
        return self.position.version

    def next(self, key: StreamKey, entry: Entry) -> tuple[Recorded, Folded]:
        """Return the event of the next entry and the fold after it. Raises DamageError when it does not follow."""
        recorded = read_entry(key, entry, self.position, self.payload)
        return recorded, Folded(_evolve(self.state, recorded), entry.position, entry.payload)


def nothing(key: StreamKey) -> Folded:
    """Return the fold of a stream before its first entry."""
    match key.kind:
        case "session":
            return Folded(SessionState(session_id=key.id))
        case "project":
            return Folded(ProjectState(project_id=key.id))
        case "access":
            return Folded(AccessState(access_id=key.id))


def _evolve(state: StreamState, recorded: Recorded) -> StreamState:
    if isinstance(state, SessionState):
        return evolve(state, recorded)
    if isinstance(state, ProjectState):
        return evolve_project(state, recorded)
    return evolve_access(state, recorded)


class FoldCache:
    """A cache of the most recently used folds."""

    def __init__(self, count: int = FOLDS_KEPT_COUNT, events: int = FOLDS_KEPT_EVENTS) -> None:
        self._count = count
        self._events = events
        self._held: OrderedDict[StreamKey, Folded] = OrderedDict()
        self._held_events = 0

    def get(self, key: StreamKey) -> Folded | None:
        return self._held.get(key)

    def put(self, key: StreamKey, folded: Folded) -> None:
        self.drop(key)
        self._held[key] = folded
        self._held_events += folded.version
        while len(self._held) > self._count or (self._held_events > self._events and len(self._held) > 1):
            self.drop(next(iter(self._held)))

    def drop(self, key: StreamKey) -> None:
        folded = self._held.pop(key, None)
        if folded is not None:
            self._held_events -= folded.version
