"""The first fold of a stream in a process: from a snapshot where there is a valid one, else from the first entry.

The stream's metadata is checked either way. A redaction after the snapshot makes it invalid: it holds what was taken
out of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ledger.access.passkeys import PASSKEYS_ID
from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.core.grants import Recorded
from ledger.core.limits import PAGE_COUNT
from ledger.log.snapshots import SNAPSHOT_EVERY_EVENTS, load_snapshot
from ledger.log.tail import (
    Folded,
    MissingContent,
    check_info,
    evolve_any,
    foreign_is_damage,
    nothing_folded,
    read_entry,
)
from ledger.stores.port import Entry, Opening, Position, StreamKey
from ledger.stores.store import Store

S = TypeVar("S")

Evolve = Callable[[S, Recorded], S]


class FreshFold(Generic[S]):
    """A fold that goes on entry by entry, with the entries that lack their content."""

    def __init__(self, key: StreamKey, evolve: Evolve[S], begin: Folded[S]) -> None:
        self._key = key
        self._evolve = evolve
        self.state, self.last, self.missing = begin.state, begin.last, MissingContent()
        self.redacts = False
        """True when one of the entries taken is a redaction."""

    def take(self, entries: Sequence[Entry]) -> None:
        """Fold the next entries. Raises DamageError when they do not follow."""
        key, evolve = self._key, self._evolve
        for entry in entries:
            recorded = read_entry(key, entry, self.last, self.last.payload, self.state)
            self.state, self.last = evolve(self.state, recorded), entry
            if recorded.redacted or type(recorded.event) is Redacted:
                self.missing.take(entry.version, recorded)
                self.redacts = self.redacts or isinstance(recorded.event, Redacted)


async def fresh_fold(store: Store, key: StreamKey, initial: S, evolve: Evolve[S]) -> FreshFold[S]:
    """Return the fold of a stream up to its last entry. Raises StoreError, SealedError, DamageError, Foreign."""
    opening, last = await _opened(store, key)
    if (snapshot := await _snapshot(store, key, last)) is not None:
        found = FreshFold(key, evolve, snapshot)
        if await _has_gone_on(store, key, found, last):
            return found
    found = FreshFold(key, evolve, Folded(initial))
    found.take(opening.entries)
    await _go_on(store, key, found, last)
    return found


async def _opened(store: Store, key: StreamKey) -> tuple[Opening, int]:
    """Return the first read of a stream, whose metadata is checked, and its last version."""
    opening = await store.open(key)
    check_info(key, opening.info)
    return opening, 0 if opening.info is None else opening.info.last.version


async def _snapshot(store: Store, key: StreamKey, last_version: int) -> Folded[Any] | None:
    """Return the fold of a long stream's snapshot, if a fold may begin with one."""
    if last_version < SNAPSHOT_EVERY_EVENTS or not await _may_begin_later(store):
        return None
    return await load_snapshot(store, key, last_version)


async def _may_begin_later(store: Store) -> bool:
    """Return whether a fold may begin with a snapshot.

    Not where people have passkeys: the demand for a signature is part of a request, and who can write views, but cannot
    change what is in a stream, must not take it away.
    """
    return await store.info(StreamKey("access", PASSKEYS_ID)) is None


async def fresh_state(store: Store, key: StreamKey) -> Folded[Any]:
    """Return the fold of a stream for readers, also where entries lack their content. Raises StoreError, DamageError."""
    with foreign_is_damage(key):
        found = await fresh_fold(store, key, nothing_folded(key).state, evolve_any)
    return Folded(found.state, found.last)


async def fold_before(store: Store, key: StreamKey, is_before: Callable[[Position], bool]) -> Folded[Any]:
    """Return the fold to begin a past state with: the snapshot if it is valid and `is_before` that state, else nothing.

    A redaction after the snapshot makes it invalid, so the entries after it are read to the last one. Raises StoreError,
    DamageError.
    """
    with foreign_is_damage(key):
        _, last = await _opened(store, key)
        snapshot = await _snapshot(store, key, last)
        if snapshot is None or not is_before(snapshot.position):
            return nothing_folded(key)
        found = FreshFold(key, evolve_any, snapshot)
        return snapshot if await _has_gone_on(store, key, found, last) else nothing_folded(key)


async def _has_gone_on(store: Store, key: StreamKey, found: FreshFold[Any], until_version: int) -> bool:
    """Fold the entries after a snapshot; return False if the snapshot must not be used."""
    try:
        await _go_on(store, key, found, until_version)
    except DamageError:
        # Raised again by the fold from the first entry, if it is not the server that lost entries meanwhile.
        return False
    return not found.redacts


async def _go_on(store: Store, key: StreamKey, found: FreshFold[Any], until_version: int) -> None:
    while 0 < found.last.version < until_version:
        page = await store.read(key, found.last.position, PAGE_COUNT)
        if not page:
            return
        found.take(page)
