"""The cached fold of one stream: its state as far as this process has read it, and the observers of its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ledger.core.commitments import after_entry, genesis
from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.core.grants import Recorded
from ledger.core.limits import PAGE_COUNT
from ledger.log.entries import MissingContent, contradicts, read_entry
from ledger.log.fresh_folds import fresh_fold
from ledger.log.plans import Fold
from ledger.stores.port import START, Entry, Position, Store, StreamKey

S = TypeVar("S")

Observer = Callable[[Recorded | None], None]


class CachedFold(Generic[S]):
    """The fold of a stream, continued by whole pages, and by the entries of wake-ups and of own appends."""

    def __init__(self, store: Store, key: StreamKey, fold: Fold[S]) -> None:
        self.key = key
        self._store = store
        self._fold = fold
        self._observers: list[Observer] = []
        self.state = fold.initial(key)
        self.position = START
        self._payload = b""
        self._missing = MissingContent()
        self.folded = False
        """True when `state` is the fold of the stream, as far as this process has read it."""
        self._safe = START
        """The last entry with confirmed replication (`Durability`)."""

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with every later event, and with None when the state was folded from the start."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    @property
    def observed(self) -> bool:
        """Return whether the stream has observers."""
        return bool(self._observers)

    def _tell(self, recorded: Recorded | None) -> None:
        if self._observers:
            for observer in list(self._observers):
                observer(recorded)

    def _forget(self) -> None:
        """Fold again before the next command. Readers keep the old state until then."""
        self.folded = False

    def _next_prev(self) -> str:
        if self.position == START:
            return genesis(self.key.kind, self.key.id)
        return after_entry(self.position.ms, self.position.version, self._payload)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _ensure_folded(self) -> bool:
        """Fold the stream if it is not folded; return True if this read the server."""
        if self.folded:
            return False
        found = await fresh_fold(self._store, self.key, self._fold.initial(self.key), self._fold.evolve)
        found.missing.require_none(self.key)
        self._missing = found.missing
        # Replaced at once, so that no reader sees a partial fold.
        self.state, self.position, self._payload = found.state, found.last.position, found.last.payload
        self._safe = START
        self.folded = True
        self._tell(None)
        return True

    async def _read_tail(self) -> bool:
        """Fold new entries, read together with the last known one; return False if the server has lost that one."""
        while True:
            seen, payload = self.position, self._payload
            page = await self._store.read(self.key, Position(seen.ms, max(seen.version - 1, 0)), PAGE_COUNT)
            lost = seen != START and (not page or (page[0].position, page[0].payload) != (seen, payload))
            if lost or contradicts(page, self.position, self._payload):
                return False
            self._absorb(page)
            if len(page) < PAGE_COUNT:
                self._missing.require_none(self.key)
                return True

    # --- folding ----------------------------------------------------------------------------------------------------

    def _absorb_quietly(self, entries: Sequence[Entry]) -> bool:
        """Fold entries from a wake-up; return False when they do not follow, so that the stream must be read."""
        if not self.folded:
            return False
        if entries and entries[0].version > self.position.version + 1:
            return False
        try:
            self._absorb(entries)
        except DamageError:
            # The next read raises the same damage to its caller.
            return False
        if self._missing:
            self._forget()
            return False
        return True

    def _absorb(self, entries: Sequence[Entry]) -> None:
        """Fold the next entries, skipping known ones."""
        for entry in entries:
            if entry.position <= self.position:
                continue
            recorded = read_entry(self.key, entry, self.position, self._payload, self.state)
            if recorded.redacted or type(recorded.event) is Redacted:
                self._missing.take(entry.version, recorded)
            self.state = self._fold.evolve(self.state, recorded)
            self.position = entry.position
            self._payload = entry.payload
            self._tell(recorded)
