"""The subscription of one gateway to the ledger's events, shared by all its readers.

Wake-ups bring most entries; the others are read. Wake-ups may be lost, so the lines of the feeds are compared with what
was published at intervals, and the heads of all streams after a connection was lost. No state is stored.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from ledger import Ledger
from ledger.core.errors import DamageError, InputError, LedgerError, StoreError
from ledger.log.fold_room import room_of
from ledger.log.fresh_folds import fold_before
from ledger.log.snapshots import SNAPSHOT_EVERY_EVENTS
from ledger.log.tail import LostHistoryError, fold_entries, nothing_folded, read_pages
from ledger.stores.port import START, Entry, FeedItem, Position, StreamKey, WakeUp
from workers.gateway.events.beginnings import Beginnings, heads_of_all, heads_of_waiting, pass_over_older
from workers.gateway.events.cursors import FeedCursor, SessionCursor
from workers.gateway.events.follower import Follower, Followers
from workers.gateway.events.frames import REDACTIONS, Frame
from workers.gateway.events.ring import Item, Ring

KEPT_COUNT: Final = 10_000
DEPTH_MAX: Final = 32
"""Levels of parent sessions that are followed."""


class Lineages:
    """A cache of lineages. A session's parent never changes, so each is looked up once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._parents: OrderedDict[str, str | None] = OrderedDict()

    async def above(self, parent: str | None) -> tuple[str, ...]:
        """Return this session and its parents, the root first. Raises StoreError."""
        found: list[str] = []
        while parent is not None and parent not in found and len(found) < DEPTH_MAX:
            found.append(parent)
            parent = await self._parent_of(parent)
        return tuple(reversed(found))

    async def _parent_of(self, session: str) -> str | None:
        if session not in self._parents:
            stream = self._ledger.streams.session(session)
            try:
                state = stream.state if stream.folded else await stream.refresh()
            except DamageError:
                return None
            if state.opened_ms is None:
                return None
            self._parents[session] = state.parent
            if len(self._parents) > KEPT_COUNT:
                self._parents.popitem(last=False)
        return self._parents[session]


log = logging.getLogger(__name__)

READS_AT_ONCE_COUNT: Final = 16
SUBSCRIBED_AT_ONCE_COUNT: Final = 32
AGAIN_SECONDS: Final = 1.0
VERIFY_SECONDS: Final = 60.0
"""Interval between comparisons with the feeds when nothing seems to be missing."""

VERIFY_ALL_SECONDS: Final = 3600.0
"""Interval between comparisons of all heads then: a server may have lost events without closing a connection."""


class Hub:
    """Follows the streams that have readers, or after `follow_all` every stream."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.store = ledger.store
        self._lineages = Lineages(ledger)
        self.followers = Followers(room_of("followers"))
        self.heads: dict[StreamKey, Position] = {}
        """The last published entry of each stream that was followed, or in which something happened since."""
        self.ring = Ring(room_of("events"))
        self._run = secrets.token_hex(8)
        self._beginnings = Beginnings(ledger.store)
        self._wanted: dict[StreamKey, Position] = {}
        """Streams to be read, at least up to that position."""
        self._readers: dict[StreamKey, asyncio.Task[None]] = {}
        self._damaged: dict[StreamKey, DamageError] = {}
        self._reads = asyncio.Semaphore(READS_AT_ONCE_COUNT)
        self._following_all = False
        self._beginning: asyncio.Task[None] | None = None
        self._comparing: asyncio.Task[None] | None = None
        self._again = asyncio.Event()
        self._listening = False
        self.on_ring: Callable[[Ring], None] = lambda _: None

    async def close(self) -> None:
        for task in [self._beginning, self._comparing, *self._readers.values()]:
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, LedgerError):
                    await task

    @property
    def cursor(self) -> FeedCursor:
        """Return the position of a reader who has received everything published so far."""
        return FeedCursor(self._run, self.ring.end)

    def can_resume(self, cursor: FeedCursor) -> bool:
        """Return whether the ring has all events after the cursor. Raises InputError for an id that was never sent."""
        if cursor.run != self._run:
            return False
        if cursor.number > self.ring.end:
            raise InputError(f"`{cursor}` is an id of the future; leave `Last-Event-ID` out to start again")
        return self.ring.since(cursor.number, 0) is not None

    async def lineage_of(self, parent: str | None) -> tuple[str, ...]:
        return await self._lineages.above(parent)

    # --- beginning --------------------------------------------------------------------------------------------------

    async def follow(self, key: StreamKey) -> Follower:
        """Return a stream's state, kept current as long as it has readers. Raises StoreError, DamageError."""
        self._listen()
        await self._ledger.streams.subscribe(key.partition(self.store.partition_count))
        while (follower := self.followers.get(key)) is None or key in self._wanted:
            if follower is None and not self._following_all and key not in self._wanted:
                self.heads[key] = (await self.store.heads([key]))[0].at
            self._want(key, self.heads.get(key, START))
            await asyncio.shield(self._readers[key])
            if key in self._damaged:
                raise self._damaged.pop(key)
        return follower

    async def follow_all(self) -> None:
        """Return when every stream is followed and all pending requests are loaded. Raises StoreError."""
        if self._beginning is None or (self._beginning.done() and not self._following_all):
            self._beginning = asyncio.create_task(self._begin(), name="events begin")
        await asyncio.shield(self._beginning)

    async def _begin(self) -> None:
        self._listen()
        partitions = range(self.store.partition_count)
        for first in range(0, len(partitions), SUBSCRIBED_AT_ONCE_COUNT):
            some = partitions[first : first + SUBSCRIBED_AT_ONCE_COUNT]
            await asyncio.gather(*(self._ledger.streams.subscribe(one) for one in some))
        # Older entries are not published; entries from here on are found by a wake-up or by a line of a feed.
        self._beginnings.go_on_from(await self._beginnings.place())
        known = {key: head for key, head in self.heads.items() if key in self._wanted}
        self.heads = known | {key: follower.position for key, follower in self.followers.items()}
        self._following_all = True
        try:
            async for key, head in heads_of_waiting(self.store):
                self.heads.setdefault(key, head)
                self._want(key, START)
            if not await self._compare_feeds():
                await self._compare()
            await self._settle_reads()
        except BaseException:
            self._following_all = False
            raise
        self._comparing = asyncio.create_task(self._compare_again(), name="compare heads")

    def _listen(self) -> None:
        if not self._listening:
            self._listening = True
            self._ledger.streams.on_wake_up(self._woken, self._gap)

    # --- hints ------------------------------------------------------------------------------------------------------

    def _woken(self, wake_up: WakeUp) -> None:
        key, follower = wake_up.key, self.followers.get(wake_up.key)
        if not key.has_calls or not (self._following_all or follower is not None or key in self._wanted):
            return
        told = self.heads.get(key, START) if follower is None else follower.position
        if wake_up.head <= told:
            return
        entries = wake_up.entries
        if 1 in {wake_up.head.version, *(one.version for one in entries[:1])}:
            self.heads.setdefault(key, START)  # the stream began with this append
        if follower is None or key in self._wanted or not entries or entries[0].version > told.version + 1:
            self._want(key, wake_up.head)
            return
        try:
            self._absorb(follower, entries)
        except DamageError:
            self._want(key, wake_up.head)

    def _gap(self, partition: int) -> None:
        for key, follower in self.followers.items():
            if key.partition(self.store.partition_count) == partition:
                self._want(key, follower.position)
        if self._following_all:
            self._again.set()

    async def _compare_again(self) -> None:
        """Compare the feeds at intervals, and all heads seldom, and whenever something may be missing."""
        loop = asyncio.get_running_loop()
        whole_at = loop.time() + VERIFY_ALL_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(VERIFY_SECONDS):
                    await self._again.wait()
            is_whole = self._again.is_set() or loop.time() >= whole_at
            self._again.clear()
            try:
                if is_whole or not await self._compare_feeds():
                    await self._compare()
                    whole_at = loop.time() + VERIFY_ALL_SECONDS
                await self._settle_reads()
            except StoreError as error:
                log.warning("event streams are delayed: %s", error)
                self._again.set()
                await asyncio.sleep(AGAIN_SECONDS)

    async def _compare_feeds(self) -> bool:
        """Read every stream of which a feed tells more than was published; return False where feeds dropped lines."""
        return await self._beginnings.read(self._lines)

    def _lines(self, items: Iterable[FeedItem]) -> None:
        for item in items:
            if item.is_move:
                continue  # sealed, or brought back: its events are as old as before
            told = self.heads.get(item.key)
            if told is None:
                self._beginnings.note(item)
            if told is None or item.version > told.version:
                self._want(item.key, told or START)

    async def _compare(self) -> None:
        """Read every stream whose head is not the last published entry, and those in which something happened since."""
        told_before = dict(self.heads)
        place = await self._beginnings.place()
        missing = set(self.heads)
        async for key, head in heads_of_all(self.store):
            missing.discard(key)
            told = self.heads.get(key)
            if self._beginnings.note_by_time(key, head) if told is None else told != head:
                self._want(key, head)
        # Sealed streams, and those that began meanwhile, are not missing.
        for key, gone in zip(missing, await self.store.heads(list(missing)), strict=True):
            if gone.at == START:
                self._lost(key, START)
        self._beginnings.go_on_from(place)
        self._forget_resting(told_before, place.since_ms)

    def _forget_resting(self, told_before: Mapping[StreamKey, Position], since_ms: int) -> None:
        """Drop the last published entries of streams that rest, of which there are more every day.

        What was published before a place is in no line after it, and is older than its time: so a stream that goes on
        begins as one in which nothing had happened yet.
        """
        self.heads = {
            key: head
            for key, head in self.heads.items()
            if head.ms >= since_ms or head != told_before.get(key) or key in self.followers or key in self._wanted
        }

    # --- reading ----------------------------------------------------------------------------------------------------

    def _want(self, key: StreamKey, head: Position) -> None:
        self._wanted[key] = max(head, self._wanted.get(key, START))
        if key not in self._readers:
            task = asyncio.create_task(self._read_on(key), name=f"events of {key.name}")
            self._readers[key] = task

    async def _settle_reads(self) -> None:
        while self._readers:
            await asyncio.gather(*(asyncio.shield(task) for task in list(self._readers.values())))

    async def _read_on(self, key: StreamKey) -> None:
        try:
            while key in self._wanted:
                await self._read(key)
        finally:
            self._wanted.pop(key, None)
            self._readers.pop(key, None)

    async def _read(self, key: StreamKey) -> None:
        wanted = self._wanted[key]
        try:
            async with self._reads:
                follower = self.followers.get(key) or await self._fold(key)
                await self._read_tail(follower)
        except DamageError as error:
            log.warning("the events of %s cannot be sent: %s", key.name, error)
            self._damaged[key] = DamageError(f"stream `{key.name}` is damaged; run verify", stream=key.name)
            await self._pass_over(key)
        except StoreError as error:
            log.warning("the events of %s are delayed: %s", key.name, error)
            await asyncio.sleep(AGAIN_SECONDS)
            return
        # A wake-up that arrived meanwhile may be for more entries than were read.
        if self._wanted.get(key) == wanted:
            del self._wanted[key]

    async def _fold(self, key: StreamKey) -> Follower:
        """Fold a stream up to its last published entry, or up to those that happened since all streams are followed."""
        follower = Follower(key)
        if key in self.heads or not self._following_all:
            await self._pass_over_told(follower, self.heads.get(key, START))
        else:
            beginning, is_complete = await self._beginnings.of(key, self._lines)
            if not is_complete:
                self._again.set()
            await pass_over_older(self.store, follower, beginning)
            self.heads[key] = follower.position
            self._beginnings.forget(key)
        follower.lineage = await self.lineage_of(getattr(follower.state, "parent", None))
        self._damaged.pop(key, None)
        self.followers.keep(follower, self._wanted)
        return follower

    async def _pass_over_told(self, follower: Follower, told: Position) -> None:
        if told.version >= SNAPSHOT_EVERY_EVENTS:
            follower.folded = await fold_before(self.store, follower.key, lambda position: position <= told)
        try:
            await self._pass_over_until(follower, told)
        except LostHistoryError:
            # The server lost the entry of the snapshot since that was read.
            follower.folded = nothing_folded(follower.key)
            await self._pass_over_until(follower, told)
        if follower.position != told:
            self._lost(follower.key, follower.position)

    async def _pass_over_until(self, follower: Follower, told: Position) -> None:
        async for page in read_pages(self.store, follower.key, follower.folded.last, until=told.version):
            follower.pass_over(entry for entry in page if entry.position <= told)

    async def _read_tail(self, follower: Follower) -> None:
        try:
            async for page in read_pages(self.store, follower.key, follower.folded.last):
                if follower.position == START:
                    first = fold_entries(follower.key, follower.folded, page[:1])
                    follower.lineage = await self.lineage_of(getattr(first.state, "parent", None))
                self._absorb(follower, page)
        except LostHistoryError:
            self._lost(follower.key, START)
            await self._read_tail(await self._fold(follower.key))

    async def _pass_over(self, key: StreamKey) -> None:
        """Skip a damaged stream: none of its entries are published, and no reader waits for it."""
        with suppress(StoreError):
            self.heads[key] = (await self.store.heads([key]))[0].at
            self._beginnings.forget(key)
        self.followers.drop(key)

    def _lost(self, key: StreamKey, now: Position) -> None:
        """Record that the server has fewer entries than were published: readers start again with a snapshot."""
        log.warning("stream %s is not what it was; its readers begin anew", key.name)
        self.heads[key] = now
        follower = self.followers.drop(key)
        self._push(self.ring, Item(None, ""))
        if follower is not None and follower.ring is not None:
            self._push(follower.ring, Item(None, ""))

    # --- publishing -------------------------------------------------------------------------------------------------

    def _absorb(self, follower: Follower, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.position > follower.position:
                self._tell(follower, follower.take(entry))
        if self.followers.get(follower.key) is follower:
            self.followers.keep(follower, self._wanted)

    def _tell(self, follower: Follower, frames: Sequence[Frame]) -> None:
        last = frames[-1]
        self.heads[follower.key] = last.at
        if last.name in REDACTIONS:
            for ring in (self.ring, follower.ring):
                if ring is not None:
                    ring.forget(follower.key)
        for frame in frames:
            if self._following_all:
                self._push(self.ring, Item(frame, str(FeedCursor(self._run, self.ring.end + 1))))
            if follower.ring is not None:
                parts = None if frame is last else frame.part
                self._push(follower.ring, Item(frame, str(SessionCursor(frame.at, parts))))

    def _push(self, ring: Ring, item: Item) -> None:
        ring.push(item)
        self.on_ring(ring)
