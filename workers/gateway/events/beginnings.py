"""The first event of each stream that a hub publishes, as the lines of the feeds tell it.

Nothing is read at the start for streams in which nothing happens. A line tells the version that a stream has reached, and
the chain tells which entries were one append: so the first line about a stream tells where to begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ledger.client.lookups import PENDING_SESSIONS_MAX
from ledger.core import codec
from ledger.core.commitments import within_append
from ledger.core.events import Imported
from ledger.log.tail import nothing_folded, read_pages
from ledger.log.viewed import pages_of_streams
from ledger.stores.port import Entry, FeedItem, Position, StreamKey
from ledger.stores.store import Store
from workers.gateway.events.follower import Follower

HEADS_AT_ONCE_COUNT: Final = 500

LINES_AT_ONCE_COUNT: Final = 100
"""Lines of each partition's feed that are compared at once."""

NO_GROUP: Final = "events"
"""The name of a group that nobody reads the feeds with."""

CLOCK_MARGIN_MS: Final = 1000
"""Tolerated difference between the clocks of a cluster's servers, and in the estimate of their time."""


class ByLine(NamedTuple):
    """A stream begins with the append that reached `version`; `since_ms` is a time before that append."""

    version: int
    since_ms: int


class ByTime(NamedTuple):
    """A stream begins with its first entry that is not older than this time: lines about it may be lost."""

    since_ms: int


class AfterHead(NamedTuple):
    """A stream begins after this version: no line tells of anything that happened."""

    version: int


Beginning = ByLine | ByTime | AfterHead


class FeedPlace(NamedTuple):
    """The ends of the feeds at one moment, and a time before it. All that happened later comes after both."""

    ends: dict[int, str]
    since_ms: int


News = Callable[[Iterable[FeedItem]], None]


class Beginnings:
    """The feeds' lines since a place, and where the streams begin that they name for the first time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._place = FeedPlace({}, 0)
        self._found: dict[StreamKey, Beginning] = {}
        self._reading = asyncio.Lock()

    async def place(self) -> FeedPlace:
        """Return the present place. Raises StoreError."""
        since_ms = self._store.clock.now_ms() - CLOCK_MARGIN_MS
        feeds = await self._store.feeds()
        return FeedPlace({one.partition: one.last.place for one in feeds if one.last is not None}, since_ms)

    def go_on_from(self, place: FeedPlace) -> None:
        """Read the lines after this place; what happened before it is published, or noted."""
        self._place = place

    async def read(self, news: News, partitions: Sequence[int] | None = None) -> bool:
        """Call `news` with new lines, page by page; return False where a feed dropped some. Raises StoreError."""
        async with self._reading:
            return await self._read(news, partitions)

    async def _read(self, news: News, partitions: Sequence[int] | None) -> bool:
        while True:
            ends = self._place.ends
            found = await self._store.owed(NO_GROUP, ends, LINES_AT_ONCE_COUNT, partitions)
            if any(lines.trimmed for lines in found):
                return False
            if ends is not self._place.ends:
                continue  # all streams were compared meanwhile, so these lines are old
            news([item for lines in found for item in lines.items if item.key.has_calls])
            ends.update((lines.partition, lines.after) for lines in found)
            if all(lines.complete for lines in found):
                return True

    def note(self, item: FeedItem) -> None:
        """Begin a stream with the append of this line, unless an earlier one was noted."""
        self._found.setdefault(item.key, ByLine(item.version, self._place.since_ms))

    def note_by_time(self, key: StreamKey, head: Position) -> bool:
        """Begin a stream by time if it may have grown since the place; return whether a beginning is noted."""
        if head.ms >= self._place.since_ms:
            self._found.setdefault(key, ByTime(self._place.since_ms))
        return key in self._found

    async def of(self, key: StreamKey, news: News) -> tuple[Beginning, bool]:
        """Return where a stream begins; and False where its feed has dropped lines. Raises StoreError."""
        if key in self._found:
            return self._found[key], True
        (head,) = await self._store.heads([key])
        # Earlier lines about the stream come first, also where their wake-ups were lost.
        is_complete = await self.read(news, [key.partition(self._store.partition_count)])
        beginning = AfterHead(head.at.version) if is_complete else ByTime(self._place.since_ms)
        return self._found.setdefault(key, beginning), is_complete

    def forget(self, key: StreamKey) -> None:
        """Drop the beginning of a stream that is followed now."""
        self._found.pop(key, None)


async def heads_of_waiting(store: Store) -> AsyncIterator[tuple[StreamKey, Position]]:
    """Iterate over the sessions with pending requests and their last entries. Raises StoreError."""
    keys = [StreamKey("session", session) for session, _ in await store.due(None, PENDING_SESSIONS_MAX)]
    for first in range(0, len(keys), HEADS_AT_ONCE_COUNT):
        some = keys[first : first + HEADS_AT_ONCE_COUNT]
        for key, head in zip(some, await store.heads(some), strict=True):
            yield key, head.at


async def heads_of_all(store: Store) -> AsyncIterator[tuple[StreamKey, Position]]:
    """Iterate over all sessions and projects, and their last entries. Raises StoreError."""
    async for page in pages_of_streams(store, None):
        keys = [key for key in page if key.has_calls]
        for key, head in zip(keys, await store.heads(keys), strict=True):
            yield key, head.at


async def pass_over_older(store: Store, follower: Follower, beginning: Beginning) -> None:
    """Fold the entries before the beginning. Raises DamageError, StoreError."""
    match beginning:
        case AfterHead(version):
            async for page in read_pages(store, follower.key, until=version):
                follower.pass_over(page)
        case ByTime(since_ms):
            await _pass_over_before(store, follower, since_ms)
        case ByLine(version, since_ms):
            await _pass_over_until(store, follower, version, since_ms)


async def _pass_over_before(store: Store, follower: Follower, since_ms: int) -> None:
    async for page in read_pages(store, follower.key):
        older = [entry for entry in page if entry.ms < since_ms]
        follower.pass_over(older)
        if len(older) < len(page):
            return


async def _pass_over_until(store: Store, follower: Follower, version: int, since_ms: int) -> None:
    """Fold the entries before the append that reached a version.

    A stream that was imported begins with its first entry: its events bear old times, and nobody was told any of them.
    """
    append: list[Entry] = []
    async for page in read_pages(store, follower.key, until=version):
        for entry in page:
            if append and not _are_one_append(append[-1], entry):
                follower.pass_over(append)
                append = []
            append.append(entry)
    if not append or append[-1].version < version:
        follower.pass_over(append)  # the server has lost what the line tells of
    elif append[-1].ms < since_ms or _is_imported(append[-1]):
        follower.folded = nothing_folded(follower.key)


def _is_imported(entry: Entry) -> bool:
    return isinstance(codec.decode(entry.payload, entry.content).event, Imported)


def _are_one_append(before: Entry, entry: Entry) -> bool:
    """Return whether an entry was appended together with the one before it. Raises DamageError."""
    if before.ms != entry.ms:
        return False
    prev = codec.decode(entry.payload, entry.content).prev
    return prev == within_append(before.version, before.payload)
