"""What happens in the ledger, heard once for all readers of this gateway.

Wake-ups bring most entries; what they do not bring is read. They may be lost, so the streams' heads are compared with
what was told whenever a subscription began anew, and now and then. Nothing here is kept anywhere: every place that a
reader may resume from is found again in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from ledger import Ledger
from ledger.client.ledger import PENDING_SESSIONS_MAX
from ledger.core.errors import DamageError, LedgerError, StoreError
from ledger.core.limits import PAGE_COUNT
from ledger.log.folds import ProjectFold
from ledger.log.plans import Fold
from ledger.log.reading import contradicts
from ledger.stores.port import START, Entry, Foreign, Position, StreamKey, WakeUp
from workers.gateway.events.cursors import SessionCursor, ledger_tag
from workers.gateway.events.follower import Follower
from workers.gateway.events.frames import Frame
from workers.gateway.events.horizon import HOLD_MS_MAX, Horizon
from workers.gateway.events.lineages import Lineages
from workers.gateway.events.ring import FEED_BYTES, Item, Ring

log = logging.getLogger(__name__)

FOLLOWERS_COUNT: Final = 2000
"""Streams whose state is kept although nothing is pending in them and nobody watches them."""

READS_AT_ONCE_COUNT: Final = 16
HEADS_AT_ONCE_COUNT: Final = 500
SUBSCRIBED_AT_ONCE_COUNT: Final = 32
AGAIN_SECONDS: Final = 1.0
VERIFY_SECONDS: Final = 60.0
"""How often all heads are compared although nothing seems to be missing."""


class Hub:
    """Follows streams: those that somebody watches, or from `follow_all` on every one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.store = ledger.store
        self._project_fold = ProjectFold()
        self._lineages = Lineages(ledger)
        self.followers: OrderedDict[StreamKey, Follower] = OrderedDict()
        self.pending: dict[StreamKey, Follower] = {}
        self.heads: OrderedDict[StreamKey, Position] = OrderedDict()
        """The last entry of each stream that was told; the one told of last comes last."""
        self.ring = Ring(FEED_BYTES)
        self._horizon = Horizon("")
        self._wanted: dict[StreamKey, Position] = {}
        """Streams to be read, at least to there."""
        self._readers: dict[StreamKey, asyncio.Task[None]] = {}
        self._damaged: dict[StreamKey, DamageError] = {}
        self._reads = asyncio.Semaphore(READS_AT_ONCE_COUNT)
        self._following_all = False
        self._beginning: asyncio.Task[None] | None = None
        self._comparing: asyncio.Task[None] | None = None
        self._again = asyncio.Event()
        self._rounds = asyncio.Condition()
        self._rounds_begun = 0
        self._rounds_done = 0
        self._listening = False
        self.on_ring: Callable[[Ring], None] = lambda _: None

    async def close(self) -> None:
        for task in [self._beginning, self._comparing, *self._readers.values()]:
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, LedgerError):
                    await task

    @property
    def cursor(self) -> str:
        """Where a reader of everything is who was told all that was told so far."""
        return str(self._horizon.cursor())

    @property
    def total(self) -> int:
        """How many entries all streams have, as far as they were told."""
        return self._horizon.total

    @property
    def ledger_tag(self) -> str:
        """What the ids of this ledger begin with."""
        return self._horizon.ledger

    def since(self, ms: int) -> list[tuple[StreamKey, Position]]:
        """The streams told of after this time. Those told of out of order are found as well, within limits."""
        found: list[tuple[StreamKey, Position]] = []
        for key, head in reversed(self.heads.items()):
            if head.ms <= ms - HOLD_MS_MAX:
                break
            if head.ms > ms:
                found.append((key, head))
        return found

    def fold_of(self, key: StreamKey) -> Fold[Any]:
        return self._project_fold if key.kind == "project" else self._ledger.streams.session_fold

    async def lineage_of(self, parent: str | None) -> tuple[str, ...]:
        return await self._lineages.above(parent)

    # --- beginning --------------------------------------------------------------------------------------------------

    async def follow(self, key: StreamKey) -> Follower:
        """A stream's state, kept up from now on as long as somebody watches it. Raises StoreError, DamageError."""
        self._listen()
        await self.store.subscribe(self.store.partition_of(key))
        while (follower := self.followers.get(key)) is None or key in self._wanted:
            if follower is None and not self._following_all and key not in self._wanted:
                (self.heads[key],) = await self.store.admin.heads([key])
            self._want(key, self.heads.get(key, START))
            await asyncio.shield(self._readers[key])
            if key in self._damaged:
                raise self._damaged.pop(key)
        return follower

    async def follow_all(self) -> None:
        """Return when every stream is followed, and what is pending anywhere is known. Raises StoreError."""
        if self._beginning is None or (self._beginning.done() and not self._following_all):
            self._beginning = asyncio.create_task(self._begin(), name="events begin")
        await asyncio.shield(self._beginning)

    async def _begin(self) -> None:
        self._listen()
        admin = self.store.admin
        self._horizon = Horizon(ledger_tag(await admin.secret()), len(await admin.facts_of_each_server()))
        self._horizon.frozen = True
        partitions = range(self.store.partition_count)
        for first in range(0, len(partitions), SUBSCRIBED_AT_ONCE_COUNT):
            some = partitions[first : first + SUBSCRIBED_AT_ONCE_COUNT]
            await asyncio.gather(*(self.store.subscribe(one) for one in some))
        now_ms = await self.store.now_ms()
        # What was there before is not told; what is appended from here on is found by its wake-up, or beside it.
        heads = await self._heads()
        heads.update((key, follower.position) for key, follower in self.followers.items())
        self.heads = OrderedDict(sorted(heads.items(), key=lambda one: one[1]))
        self._following_all = True
        try:
            for session, _ in await self.store.due(None, PENDING_SESSIONS_MAX):
                self._want(StreamKey("session", session), START)
            await self._compare()
            await self._settle_reads()
        except BaseException:
            self._following_all = False
            raise
        self._horizon.frozen = False
        self._horizon.begin(now_ms, self.heads)
        self._comparing = asyncio.create_task(self._compare_again(), name="compare heads")

    def _listen(self) -> None:
        if not self._listening:
            self._listening = True
            self._ledger.streams.on_wake_up(self._woken, self._gap)

    async def _heads(self) -> dict[StreamKey, Position]:
        keys = [key async for key in self.store.streams() if key.kind != "access"]
        heads: dict[StreamKey, Position] = {}
        for first in range(0, len(keys), HEADS_AT_ONCE_COUNT):
            some = keys[first : first + HEADS_AT_ONCE_COUNT]
            heads.update(zip(some, await self.store.admin.heads(some), strict=True))
        return heads

    # --- hints ------------------------------------------------------------------------------------------------------

    def _woken(self, wake_up: WakeUp) -> None:
        key, follower = wake_up.key, self.followers.get(wake_up.key)
        if key.kind == "access" or not (self._following_all or follower is not None or key in self._wanted):
            return
        self._horizon.heard(wake_up.head.ms)
        told = self.heads.get(key, START) if follower is None else follower.position
        if wake_up.head <= told:
            return
        entries = wake_up.entries
        if follower is None or key in self._wanted or not entries or entries[0].version > told.version + 1:
            self._want(key, wake_up.head, entries[0].ms if entries else wake_up.head.ms)
            return
        try:
            self._absorb(follower, entries)
        except DamageError:
            self._want(key, wake_up.head, entries[0].ms)

    def _gap(self, partition: int) -> None:
        for key, follower in self.followers.items():
            if self.store.partition_of(key) == partition:
                self._want(key, follower.position)
        if self._following_all:
            self._horizon.frozen = True
            self._again.set()

    async def verify(self) -> None:
        """Return when everything that was appended before this call was told."""
        wanted = self._rounds_begun + 1
        self._again.set()
        async with self._rounds:
            await self._rounds.wait_for(lambda: self._rounds_done >= wanted)

    async def _compare_again(self) -> None:
        """Compare all heads, now and then and whenever something may be missing."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(VERIFY_SECONDS):
                    await self._again.wait()
            self._again.clear()
            self._horizon.frozen = True
            self._rounds_begun += 1
            try:
                await self._compare()
                await self._settle_reads()
            except StoreError as error:
                log.warning("the event streams wait: %s", error)
                self._again.set()
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            self._horizon.frozen = self._again.is_set()
            async with self._rounds:
                self._rounds_done = self._rounds_begun
                self._rounds.notify_all()

    async def _compare(self) -> None:
        """Read every stream that does not end where it was told to."""
        heads = await self._heads()
        for key, head in heads.items():
            if self.heads.get(key, START) != head:
                self._want(key, head)
        for key in [key for key in self.heads if key not in heads]:
            # A stream that began meanwhile is not gone.
            if (await self.store.admin.heads([key]))[0] == START:
                self._lost(key, START)

    # --- reading ----------------------------------------------------------------------------------------------------

    def _want(self, key: StreamKey, head: Position, ms: int | None = None) -> None:
        self._wanted[key] = max(head, self._wanted.get(key, START))
        if ms is not None:
            self._horizon.behind(key, ms)
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
            self._horizon.caught_up(key)
            self._wanted.pop(key, None)
            self._readers.pop(key, None)

    async def _read(self, key: StreamKey) -> None:
        wanted = self._wanted[key]
        try:
            async with self._reads:
                follower = self.followers.get(key) or await self._fold(key)
                await self._read_tail(follower)
        except (DamageError, Foreign) as error:
            log.warning("the events of %s cannot be told: %s", key.name, error)
            self._damaged[key] = DamageError(f"stream `{key.name}` is damaged; run verify", stream=key.name)
            await self._pass_over(key)
        except StoreError as error:
            log.warning("the events of %s wait: %s", key.name, error)
            await asyncio.sleep(AGAIN_SECONDS)
            return
        # What came meanwhile may tell of more than was read.
        if self._wanted.get(key) == wanted:
            del self._wanted[key]

    async def _fold(self, key: StreamKey) -> Follower:
        """Fold a stream up to what was told of it."""
        told = self.heads.get(key, START)
        follower = Follower(key, self.fold_of(key))
        while follower.position < told:
            page = await self.store.read(key, follower.position, PAGE_COUNT)
            page = tuple(entry for entry in page if entry.position <= told)
            if not page:
                break
            follower.pass_over(page)
        if follower.position != told:
            self._lost(key, follower.position)
        follower.lineage = await self.lineage_of(getattr(follower.state, "parent", None))
        self._damaged.pop(key, None)
        self.followers[key] = follower
        self._keep(follower)
        return follower

    async def _read_tail(self, follower: Follower) -> None:
        """Read what is new, and with it the last entry known: if that is not there any more, entries were lost."""
        while True:
            seen, payload = follower.position, follower.payload
            page = await self.store.read(follower.key, Position(seen.ms, max(seen.version - 1, 0)), PAGE_COUNT)
            lost = seen != START and (not page or (page[0].position, page[0].payload) != (seen, payload))
            if lost or contradicts(page, seen, payload):
                self._lost(follower.key, START)
                await self._read_tail(await self._fold(follower.key))
                return
            if seen == START and page:
                first = Follower(follower.key, self.fold_of(follower.key))
                first.pass_over(page[:1])
                follower.lineage = await self.lineage_of(getattr(first.state, "parent", None))
            self._absorb(follower, page)
            if len(page) < PAGE_COUNT:
                return

    async def _pass_over(self, key: StreamKey) -> None:
        """A damaged stream: nothing of it is told, and nobody waits for it."""
        with suppress(StoreError):
            (head,) = await self.store.admin.heads([key])
            self._horizon.told(key, self.heads.get(key, START), head)
            self.heads[key] = head
        self.followers.pop(key, None)
        self.pending.pop(key, None)

    def _lost(self, key: StreamKey, now: Position) -> None:
        """The server has less than was told: readers begin anew."""
        log.warning("stream %s is not what it was; its readers begin anew", key.name)
        self._horizon.lost(key, self.heads.get(key, START), now)
        self.heads[key] = now
        follower = self.followers.pop(key, None)
        self.pending.pop(key, None)
        self._push(self.ring, Item(None, ""))
        if follower is not None and follower.ring is not None:
            self._push(follower.ring, Item(None, ""))

    # --- telling ----------------------------------------------------------------------------------------------------

    def _absorb(self, follower: Follower, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.position > follower.position:
                self._tell(follower, follower.take(entry))
        self._keep(follower)

    def _tell(self, follower: Follower, frames: Sequence[Frame]) -> None:
        key, last = follower.key, frames[-1]
        before = self.heads.get(key, START)
        for frame in frames:
            if frame is last:
                self._horizon.told(key, before, frame.at)
                self.heads[key] = frame.at
                self.heads.move_to_end(key)
            if self._following_all:
                partly = None if frame is last else (key, before, frame.part)
                self._push(self.ring, Item(frame, str(self._horizon.cursor(partly))))
            if follower.ring is not None:
                parts = None if frame is last else frame.part
                self._push(follower.ring, Item(frame, str(SessionCursor(frame.at, parts))))

    def _push(self, ring: Ring, item: Item) -> None:
        ring.push(item)
        self.on_ring(ring)

    def _keep(self, follower: Follower) -> None:
        """Remember what is pending, and forget the stream that was used the longest ago."""
        if follower.has_pending:
            self.pending[follower.key] = follower
        else:
            self.pending.pop(follower.key, None)
        if follower.key in self.followers:
            self.followers.move_to_end(follower.key)
        if len(self.followers) - len(self.pending) > FOLLOWERS_COUNT:
            self._forget(self.followers.values())

    def _forget(self, followers: Iterable[Follower]) -> None:
        idle = next(
            (one for one in followers if not (one.has_pending or one.watchers or one.key in self._wanted)), None
        )
        if idle is not None:
            del self.followers[idle.key]
