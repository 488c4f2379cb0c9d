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
from ledger.log.entries import MissingContent, check_info, read_entry
from ledger.log.snapshots import SNAPSHOT_EVERY_EVENTS, load_snapshot
from ledger.log.tail import Folded, evolve_any, foreign_is_damage, nothing_folded
from ledger.stores.port import START, Entry, Position, Store, StreamKey

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
    opening = await store.open(key)
    check_info(key, opening.info)
    last = START if opening.info is None else opening.info.last
    if last.version >= SNAPSHOT_EVERY_EVENTS and await _may_begin_later(store):
        snapshot = await load_snapshot(store, key, last.version)
        found = None if snapshot is None else FreshFold(key, evolve, snapshot)
        if found is not None and await _has_gone_on(store, key, found, last.version):
            return found
    found = FreshFold(key, evolve, Folded(initial))
    found.take(opening.entries)
    await _go_on(store, key, found, last.version)
    return found


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
        opening = await store.open(key)
        check_info(key, opening.info)
        last = START if opening.info is None else opening.info.last
        if last.version >= SNAPSHOT_EVERY_EVENTS and await _may_begin_later(store):
            snapshot = await load_snapshot(store, key, last.version)
            if snapshot is not None and is_before(snapshot.position):
                found = FreshFold(key, evolve_any, snapshot)
                if await _has_gone_on(store, key, found, last.version):
                    return snapshot
    return nothing_folded(key)


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
