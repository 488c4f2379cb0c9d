"""A store in one process's memory, for tests and experiments. It behaves as a real server does."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from ledger.core.errors import InDoubtError, LedgerError, SealedError
from ledger.core.events import Presence
from ledger.core.freezes import EVERYTHING, reach_of
from ledger.core.limits import (
    CONFLICT_TAIL_COUNT,
    FEED_LENGTH_COUNT,
    INLINE_WAKE_UP_BYTES,
    PAGE_COUNT,
    PARTITION_COUNT_DEFAULT,
    SETTLE_GRACE_MS,
)
from ledger.stores.checkpoints import CHECKPOINTS_VIEW, checkpoint_in
from ledger.stores.clock import Clock, sleep_until
from ledger.stores.durability import Durability
from ledger.stores.keys import Keys
from ledger.stores.memory_admin import MemoryAdmin, MemoryViews
from ledger.stores.memory_seals import entries_in
from ledger.stores.port import (
    NOTHING_DUE,
    START,
    Answered,
    Append,
    Appended,
    AppendResult,
    Behind,
    Blocked,
    Conflict,
    Due,
    Entry,
    FeedItem,
    FreezeFlag,
    Listener,
    Opening,
    OthersPresent,
    OutsideWindow,
    Place,
    Position,
    StreamInfo,
    StreamKey,
    Unverified,
    ViewAdvance,
    ViewWrite,
    WakeUp,
)
from ledger.stores.redis.deployment import SECRET_BYTES
from ledger.stores.sealed import Seal, sealed_error

FIRST_IDENTITY: Final = "memory-1"


class WallClock:
    """The process's clock, which is the server's clock here."""

    known = True
    is_moved_by_hand = False
    grace_ms = SETTLE_GRACE_MS

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def observe(self, now_ms: int) -> None:
        """Do nothing: this is the server's clock itself."""

    async def wait_until(self, ms: int) -> None:
        await sleep_until(self, ms)


class MemoryServer:
    """The data of a server. Several stores may share it, as several processes share a Redis."""

    def __init__(self, clock: Clock | None = None, partition_count: int = PARTITION_COUNT_DEFAULT) -> None:
        self.clock: Clock = clock or WallClock()
        self.keys = Keys(partition_count)
        self.streams: dict[StreamKey, list[Entry]] = {}
        self.seals: dict[StreamKey, Seal] = {}
        self.closed_files: set[str] = set()
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self.link_key: bytes | None = None
        self.due: dict[str, float] = {}
        self.feeds: dict[int, list[FeedItem]] = defaultdict(list)
        self.feed_counts: dict[int, int] = defaultdict(int)
        self.leases: dict[Place, dict[str, tuple[Presence, int]]] = defaultdict(dict)
        self.turns: dict[str, tuple[str, int]] = {}
        self.reads: dict[str, list[tuple[int, bytes]]] = {}
        self.notes: dict[str, dict[str, bytes]] = {}
        self.listeners: dict[int, list[Listener]] = defaultdict(list)
        self.views: dict[int, dict[str, dict[str, bytes | int]]] = defaultdict(lambda: defaultdict(dict))
        self.census_begun: dict[int, str] = {}
        self.census_done: dict[int, str] = {}
        self.delivered: dict[tuple[str, int], int] = defaultdict(int)
        self.unacknowledged: dict[str, dict[str, tuple[FeedItem, str, int]]] = defaultdict(dict)
        self.identity = FIRST_IDENTITY
        """Changed by a simulated failover: the flags must be compared with the stream of freezes again."""
        self.freeze_flags: dict[int, FreezeFlag] = {}
        self.verified_by: dict[int, str] = {}

    def is_known(self, group: str, partition: int) -> bool:
        """Return whether a consumer group exists on this feed."""
        return (group, partition) in self.delivered


class MemoryStore:
    """A store over a `MemoryServer`."""

    def __init__(self, server: MemoryServer | None = None) -> None:
        self._server = server or MemoryServer()
        self._listener: Listener | None = None
        self._subscribed: set[int] = set()

    @property
    def clock(self) -> Clock:
        return self._server.clock

    @property
    def partition_count(self) -> int:
        return self._server.keys.count

    async def start(self) -> None:
        """Do nothing: there is no connection."""

    async def close(self) -> None:
        for partition in self._subscribed:
            listeners = self._server.listeners[partition]
            if self._listener in listeners:
                listeners.remove(self._listener)
        self._subscribed.clear()

    def partition_of(self, key: StreamKey) -> int:
        return self._server.keys.partition_of(key)

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        loop = asyncio.get_running_loop()
        try:
            result = self._append(append)
            beside = () if also_read is None else self._beside(*also_read)
        except LedgerError as error:
            loop.call_soon(answered, error, ())
        else:
            loop.call_soon(answered, result, beside)

    def _beside(self, key: StreamKey, after: Position) -> tuple[Entry, ...]:
        try:
            return self._after(key, after, PAGE_COUNT)
        except SealedError as error:
            raise InDoubtError(f"{error.text}: ask again with the same request id") from error

    def append(self, append: Append) -> AppendResult:
        """Compare and append at once."""
        return self._append(append)

    def _append(self, append: Append) -> AppendResult:
        now_ms = self.clock.now_ms()
        entries = entries_in(self._server, append.key)
        head = entries[-1].position if entries else START
        if head != append.after:
            return self._refuse(append, entries, head, now_ms)
        ms = max(now_ms, append.after.ms)
        too_early = append.not_before_ms is not None and ms < append.not_before_ms
        if too_early or (append.not_after_ms is not None and ms > append.not_after_ms):
            return OutsideWindow(ms, now_ms)
        if append.present is not None and set(here := self._present(append.key.id)) != set(append.present):
            return OthersPresent(here, now_ms)
        if append.allows and (refused := self._frozen(append, now_ms)) is not None:
            return refused
        new = [Entry(ms, version, *fields) for version, fields in enumerate(append.payloads, append.after.version + 1)]
        self._server.streams.setdefault(append.key, entries).extend(new)
        self._hint(append, ms)
        self.tell(append.key, new)
        return Appended(ms, now_ms)

    def _frozen(self, append: Append, now_ms: int) -> AppendResult | None:
        server, partition = self._server, self.partition_of(append.key)
        if server.verified_by.get(partition, FIRST_IDENTITY) != server.identity:
            return Unverified(server.identity, now_ms)
        flag = server.freeze_flags.get(partition)
        if flag is None or not flag.freezes:
            return None
        freeze = flag.freezes.get(EVERYTHING) or flag.freezes.get(reach_of(append.project))
        return None if freeze is None else Blocked(freeze, flag.at, now_ms)

    def _refuse(self, append: Append, entries: list[Entry], head: Position, now_ms: int) -> AppendResult:
        known = append.after == START or append.after in {entry.position for entry in entries}
        if not known:
            return Behind(head, now_ms)
        return Conflict(self._after(append.key, append.after, CONFLICT_TAIL_COUNT), head, now_ms)

    def _hint(self, append: Append, ms: int) -> None:
        if isinstance(append.due, Due):
            at_ms = append.due.ms
            self._server.due[append.key.id] = (
                math.inf if at_ms is None else float(at_ms + (ms if append.due.relative else 0))
            )
        elif append.due is not None:
            self._server.due.pop(append.key.id, None)

    def tell(self, key: StreamKey, new: list[Entry], *, inline: bool = True, is_move: bool = False) -> None:
        """Add new entries to the feed, and notify the listeners."""
        self.feed(key, new[-1].version, is_move=is_move)
        wake_up = WakeUp(key, new[-1].position, tuple(new) if inline and _fits_inline(new) else ())
        for listener in list(self._server.listeners[self.partition_of(key)]):
            listener.woken(wake_up)

    def feed(self, key: StreamKey, version: int, *, is_move: bool = False) -> None:
        """Add a line to the feed of a stream's partition."""
        partition = self.partition_of(key)
        self._server.feed_counts[partition] += 1
        feed = self._server.feeds[partition]
        feed.append(FeedItem(f"{partition}/{self._server.feed_counts[partition]}", key, version, is_move))
        del feed[:-FEED_LENGTH_COUNT]

    @property
    def durability(self) -> Durability:
        return Durability()

    @property
    def confirms(self) -> bool:
        return False

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        return next((entry for entry in entries_in(self._server, key) if entry.position == at), None)

    async def set_flags(self, flag: FreezeFlag, server: str | None = None) -> list[Position]:
        held, verified_by = self._server.freeze_flags, self._server.verified_by
        for partition in range(self.partition_count):
            had = held.get(partition)
            if had is None or had.at <= flag.at:
                held[partition] = flag
            if server == self._server.identity:
                verified_by[partition] = server
        return [held[partition].at for partition in range(self.partition_count)]

    async def flags(self) -> list[FreezeFlag | None]:
        server = self._server
        begun = FreezeFlag(START, {}) if server.identity == FIRST_IDENTITY else None
        return [server.freeze_flags.get(partition, begun) for partition in range(self.partition_count)]

    async def open(self, key: StreamKey) -> Opening:
        return Opening(await self.info(key), self._after(key, START, PAGE_COUNT), self.clock.now_ms())

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        return self._after(key, after, count)

    async def read_many(self, wanted: Sequence[tuple[StreamKey, Position]]) -> list[tuple[Entry, ...]]:
        return [self._after(key, after, PAGE_COUNT) for key, after in wanted]

    def _after(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        entries = entries_in(self._server, key)
        first = bisect_right(entries, after, key=lambda entry: entry.position) if after != START else 0
        return tuple(entries[first : first + count])

    async def info(self, key: StreamKey) -> StreamInfo | None:
        entries = entries_in(self._server, key)
        if not entries:
            return None
        last = entries[-1].position
        return StreamInfo(length=len(entries), entries_added=len(entries), last=last, max_deleted=START)

    async def streams(self) -> AsyncIterator[StreamKey]:
        for key in list(self._server.streams):
            yield key

    async def sealed_streams(self) -> AsyncIterator[StreamKey]:
        for key in list(self._server.seals):
            yield key

    async def now_ms(self) -> int:
        return self.clock.now_ms()

    async def due(
        self, until_ms: int | None, count: int, partitions: Sequence[int] | None = None
    ) -> list[tuple[str, int | None]]:
        limit = math.inf if until_ms is None else until_ms
        found = sorted(
            (at, session)
            for session, at in self._server.due.items()
            if at <= limit and (partitions is None or self.partition_of(StreamKey("session", session)) in partitions)
        )
        return [(session, None if at == math.inf else int(at)) for at, session in found[:count]]

    async def due_of(self, sessions: Sequence[str]) -> list[int | str | None]:
        found = [self._server.due.get(session) for session in sessions]
        return [NOTHING_DUE if at is None else None if at == math.inf else int(at) for at in found]

    async def correct_due(self, session: str, seen_ms: int | str | None, to: Due | str, *, at: Position) -> None:
        key = StreamKey("session", session)
        entries, seal = self._server.streams.get(key), self._server.seals.get(key)
        head = seal.head if seal is not None else entries[-1].position if entries else START
        if (await self.due_of([session])) != [seen_ms] or head != at:
            return
        if isinstance(to, Due):
            if seal is not None:
                raise sealed_error(key, seal)
            self._server.due[session] = math.inf if to.ms is None else float(to.ms)
        else:
            self._server.due.pop(session, None)

    async def listen(self, listener: Listener) -> None:
        self._listener = listener

    async def subscribe(self, partition: int) -> None:
        assert self._listener is not None, "listen before you subscribe"
        if partition not in self._subscribed:
            self._subscribed.add(partition)
            self._server.listeners[partition].append(self._listener)

    async def renew_lease(self, place: Place, client: Presence, lease_ms: int) -> None:
        self._server.leases[place][client.client_id] = (client, self.clock.now_ms() + lease_ms)

    async def drop_lease(self, place: Place, client_id: str) -> None:
        self._server.leases[place].pop(client_id, None)

    async def leases(self, place: Place) -> tuple[Presence, ...]:
        return self._present(place)

    async def leases_of(self, places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        return [self._present(place) for place in places]

    def _present(self, place: Place) -> tuple[Presence, ...]:
        now_ms = self.clock.now_ms()
        return tuple(client for client, until_ms in self._server.leases[place].values() if now_ms < until_ms)

    async def read_feed(self, partitions: Sequence[int], group: str, consumer: str, count: int) -> list[FeedItem]:
        items: list[FeedItem] = []
        for partition in partitions:
            done = self._server.delivered[group, partition]
            fresh = [item for item in self._server.feeds[partition] if _place(item)[1] > done][:count]
            self._server.delivered[group, partition] = _place(fresh[-1])[1] if fresh else done
            items += fresh
        for item in items:
            self._server.unacknowledged[group][item.item_id] = (item, consumer, self.clock.now_ms())
        return items

    async def claim_feed(
        self, partitions: Sequence[int], group: str, consumer: str, idle_ms: int, count: int
    ) -> list[FeedItem]:
        now_ms = self.clock.now_ms()
        waiting = self._server.unacknowledged[group]
        idle = [item for item, _, since in waiting.values() if now_ms - since >= idle_ms]
        claimed: list[FeedItem] = []
        for partition in partitions:
            claimed += [item for item in idle if _place(item)[0] == partition][:count]
        for item in claimed:
            waiting[item.item_id] = (item, consumer, now_ms)
        return claimed

    async def acknowledge(self, group: str, items: Sequence[FeedItem]) -> None:
        for item in items:
            self._server.unacknowledged[group].pop(item.item_id, None)

    async def project(self, key: StreamKey, expected: Position, at: Position, writes: Sequence[ViewWrite]) -> bool:
        return await self.project_all((ViewAdvance(key, expected, at),), writes)

    async def project_all(self, advances: Sequence[ViewAdvance], writes: Sequence[ViewWrite]) -> bool:
        if any(self._checkpoint(one.key) != one.expected for one in advances):
            return False
        views = self._server.views[self.partition_of(advances[0].key)]
        for write in writes:
            _write_view(views[write.view], write)
        moved = {one.key.name: str(one.at).encode() for one in advances if one.at != one.expected}
        views[CHECKPOINTS_VIEW].update(moved)
        return True

    async def checkpoint(self, key: StreamKey) -> Position:
        return self._checkpoint(key)

    def _checkpoint(self, key: StreamKey) -> Position:
        held = self._server.views[self.partition_of(key)][CHECKPOINTS_VIEW].get(key.name)
        return checkpoint_in(None if held is None else _as_bytes(held))

    async def view(self, view: str, partition: int) -> Mapping[str, bytes]:
        held = self._server.views[partition][view]
        return {field: _as_bytes(value) for field, value in held.items()}

    async def view_field(self, view: str, partition: int, field: str) -> bytes | None:
        value = self._server.views[partition][view].get(field)
        return None if value is None else _as_bytes(value)

    async def drop_views(self, partition: int, names: Sequence[str] | None = None) -> None:
        held = self._server.views.get(partition, {})
        for name in list(held) if names is None else (CHECKPOINTS_VIEW, *names):
            held.pop(name, None)
        self._server.census_begun.pop(partition, None)
        self._server.census_done.pop(partition, None)

    @property
    def views(self) -> MemoryViews:
        return MemoryViews(self, self._server)

    @property
    def admin(self) -> MemoryAdmin:
        return MemoryAdmin(self, self._server)


def _fits_inline(entries: Sequence[Entry]) -> bool:
    """Return whether a wake-up carries the entries: each takes a line for its id, its payload and its content."""
    sizes = [len(f"\n{one.position}\n\n") + len(one.payload) + len(one.content or b"") for one in entries]
    return sum(sizes) <= INLINE_WAKE_UP_BYTES


def _place(item: FeedItem) -> tuple[int, int]:
    """Return an item's partition and its number there."""
    partition, _, number = item.item_id.partition("/")
    return int(partition), int(number)


def _write_view(held: dict[str, bytes | int], write: ViewWrite) -> None:
    if write.kind == "count":
        assert isinstance(write.value, int)
        held[write.field] = int(held.get(write.field, 0)) + write.value
    elif write.kind == "latest":
        assert isinstance(write.value, int)
        held[write.field] = max(int(held.get(write.field, 0)), write.value)
    elif write.value is None:
        held.pop(write.field, None)
    else:
        held[write.field] = write.value


def _as_bytes(value: bytes | int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
