"""A store in one process's memory, for tests and experiments. It behaves as a real server does."""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from ledger.core.errors import InDoubtError, LedgerError, SealedError
from ledger.core.events import Presence
from ledger.core.freezes import EVERYTHING, reach_of
from ledger.core.ids import cursor_number
from ledger.core.limits import (
    CONFLICT_TAIL_COUNT,
    FEED_LENGTH_COUNT,
    INLINE_WAKE_UP_BYTES,
    PAGE_COUNT,
    PARTITION_COUNT_DEFAULT,
    SETTLE_GRACE_MS,
)
from ledger.stores.durability import Durability
from ledger.stores.keys import CENSUS, PROJECTORS, Keys
from ledger.stores.port import (
    CENSUS_BEGUN,
    CENSUS_DONE,
    CHECKPOINTS_VIEW,
    NOTHING_DUE,
    SKIPPED,
    START,
    Append,
    Appended,
    AppendResult,
    Behind,
    Blocked,
    Conflict,
    Due,
    Entry,
    FeedFacts,
    FeedItem,
    FeedLines,
    FilesRewritten,
    FoundFields,
    FreezeFlag,
    GroupFacts,
    Opening,
    OthersPresent,
    OutsideWindow,
    Place,
    Position,
    ShortStream,
    StreamInfo,
    StreamKey,
    TakenLines,
    Unverified,
    ViewAdvance,
    ViewWrite,
    WakeUp,
    WantedFields,
    checkpoint_in,
)
from ledger.stores.sealed import SEALING_MS, Seal, StreamHead, check_entries, check_sealable, encode_seal, sealed_error
from ledger.stores.store import Answered, Clock, Following, Listener, sleep_until

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
        self.due: dict[str, float] = {}
        self.feeds: dict[int, list[FeedItem]] = defaultdict(list)
        self.feed_counts: dict[int, int] = defaultdict(int)
        self.leases: dict[Place, dict[str, tuple[Presence, int]]] = defaultdict(dict)
        self.reads: dict[str, list[tuple[int, bytes]]] = {}
        self.notes: dict[str, dict[str, bytes]] = {}
        self.listeners: dict[int, list[Listener]] = defaultdict(list)
        self.views: dict[int, dict[str, dict[str, bytes | int]]] = defaultdict(lambda: defaultdict(dict))
        self.delivered: dict[tuple[str, int], int] = defaultdict(int)
        self.unacknowledged: dict[str, dict[str, tuple[FeedItem, str, int]]] = defaultdict(dict)
        self.identity = FIRST_IDENTITY
        """Changed by a simulated failover: the flags must be compared with the stream of freezes again."""
        self.freeze_flags: dict[int, FreezeFlag] = {}
        self.verified_by: dict[int, str] = {}

    def entries_in(self, key: StreamKey) -> list[Entry]:
        """Return the entries of a stream. Raises SealedError."""
        seal = self.seals.get(key)
        if seal is not None:
            raise sealed_error(key, seal)
        return self.streams.get(key, [])

    def unacknowledged_in(self, group: str, partition: int) -> list[tuple[FeedItem, str, int]]:
        """Return the lines of a feed that a group has not acknowledged, each with its consumer and time."""
        lines = self.unacknowledged.get(group, {}).values()
        return [line for line in lines if line[0].partition == partition]


class MemoryStore:
    """A store over a `MemoryServer`."""

    durability = Durability()

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

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        loop = asyncio.get_running_loop()
        try:
            result = self.append(append)
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
        now_ms = self.clock.now_ms()
        entries = self._server.entries_in(append.key)
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
        self._tell(append.key, new)
        return Appended(ms, now_ms)

    def _frozen(self, append: Append, now_ms: int) -> AppendResult | None:
        server, partition = self._server, append.key.partition(self.partition_count)
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

    def _tell(self, key: StreamKey, new: list[Entry], *, inline: bool = True, is_move: bool = False) -> None:
        """Add new entries to the feed, and notify the listeners."""
        self._feed(key, new[-1].version, is_move=is_move)
        wake_up = WakeUp(key, new[-1].position, tuple(new) if inline and _fits_inline(new) else ())
        for listener in list(self._server.listeners[key.partition(self.partition_count)]):
            listener.woken(wake_up)

    def _feed(self, key: StreamKey, version: int, *, is_move: bool = False) -> None:
        partition = key.partition(self.partition_count)
        self._server.feed_counts[partition] += 1
        feed = self._server.feeds[partition]
        feed.append(FeedItem(f"{partition}/0-{self._server.feed_counts[partition]}", key, version, is_move))
        del feed[:-FEED_LENGTH_COUNT]

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        return next((entry for entry in self._server.entries_in(key) if entry.position == at), None)

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

    def _after(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        entries = self._server.entries_in(key)
        first = bisect_right(entries, after, key=lambda entry: entry.position) if after != START else 0
        return tuple(entries[first : first + count])

    async def info(self, key: StreamKey) -> StreamInfo | None:
        entries = self._server.entries_in(key)
        if not entries:
            return None
        last = entries[-1].position
        return StreamInfo(length=len(entries), entries_added=len(entries), last=last, max_deleted=START)

    async def short_streams(self, keys: Sequence[StreamKey], count: int) -> list[ShortStream | None]:
        found = []
        for key in keys:
            info = None if key in self._server.seals else await self.info(key)
            is_short = info is not None and info.length < count
            found.append(ShortStream(info, self._after(key, START, count)) if info and is_short else None)
        return found

    async def heads(self, keys: Sequence[StreamKey]) -> list[StreamHead]:
        return [self._head(key) for key in keys]

    def _head(self, key: StreamKey) -> StreamHead:
        if (seal := self._server.seals.get(key)) is not None:
            return StreamHead(seal.head, seal)
        entries = self._server.streams.get(key)
        return StreamHead(entries[-1].position if entries else START)

    async def streams_page(self, cursor: str, count: int, *, sealed: bool = False) -> tuple[list[StreamKey], str]:
        keys, first = list(self._server.seals if sealed else self._server.streams), cursor_number(cursor or "0", cursor)
        return keys[first : first + count], str(first + count) if first + count < len(keys) else ""

    async def now_ms(self) -> int:
        return self.clock.now_ms()

    async def due(
        self, until_ms: int | None, count: int, partitions: Sequence[int] | None = None
    ) -> list[tuple[str, int | None]]:
        limit = math.inf if until_ms is None else until_ms
        found = sorted(
            (at, session)
            for session, at in self._server.due.items()
            if at <= limit
            and (partitions is None or StreamKey("session", session).partition(self.partition_count) in partitions)
        )
        return [(session, None if at == math.inf else int(at)) for at, session in found[:count]]

    async def due_of(self, sessions: Sequence[str]) -> list[int | str | None]:
        found = [self._server.due.get(session) for session in sessions]
        return [NOTHING_DUE if at is None else None if at == math.inf else int(at) for at in found]

    async def correct_due(self, session: str, seen_ms: int | str | None, to: Due | str, *, at: Position) -> None:
        key = StreamKey("session", session)
        head = self._head(key)
        if (await self.due_of([session])) != [seen_ms] or head.at != at:
            return
        if not isinstance(to, Due):
            self._server.due.pop(session, None)
        elif head.seal is not None:
            raise sealed_error(key, head.seal)
        else:
            self._note_due(session, to)

    def _note_due(self, session: str, due: Due | None) -> None:
        if due is not None:
            self._server.due[session] = math.inf if due.ms is None else float(due.ms)

    async def subscribe(self, partition: int, listener: Listener) -> None:
        self._listener = listener
        if partition not in self._subscribed:
            self._subscribed.add(partition)
            self._server.listeners[partition].append(listener)

    async def lease(self, place: Place, client: Presence, lease_ms: int, *, alone: bool = False) -> bool:
        held = self._server.leases[place]
        if alone and any(one.client_id != client.client_id for one in self._present(place)):
            return False
        if lease_ms:
            held[client.client_id] = (client, self.clock.now_ms() + lease_ms)
        else:
            held.pop(client.client_id, None)
        return True

    async def leases(self, places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        return [self._present(place) for place in places]

    def _present(self, place: Place) -> tuple[Presence, ...]:
        now_ms = self.clock.now_ms()
        return tuple(client for client, until_ms in self._server.leases[place].values() if now_ms < until_ms)

    async def read_feed(
        self, partitions: Sequence[int], group: str, consumer: str, count: int, idle_ms: int | None = None
    ) -> TakenLines:
        server, now_ms = self._server, self.clock.now_ms()
        claimed: list[FeedItem] = []
        new: list[FeedItem] = []
        gaps = []
        for partition in partitions:
            feed, done = server.feeds[partition], server.delivered.get((group, partition), 0)
            idle = [
                item
                for item, _, since in server.unacknowledged_in(group, partition)
                if idle_ms is not None and now_ms - since >= idle_ms
            ]
            fresh = [item for item in feed if number_of(item) > done]
            first = min([done, *map(number_of, idle)])
            if feed and (first < number_of(feed[0]) if done else len(feed) >= FEED_LENGTH_COUNT):
                gaps.append(partition)
            if fresh:
                server.delivered[group, partition] = number_of(fresh[:count][-1])
            claimed += idle[:count]
            new += fresh[:count]
        items = [*claimed, *new]
        server.unacknowledged[group].update({item.item_id: (item, consumer, now_ms) for item in items})
        return TakenLines(items, gaps, len(claimed))

    async def acknowledge(self, group: str, items: Sequence[FeedItem]) -> None:
        for item in items:
            self._server.unacknowledged[group].pop(item.item_id, None)

    async def unacknowledged(
        self, group: str, since: Mapping[int, str], count: int, partitions: Sequence[int] | None = None
    ) -> list[FeedLines]:
        wanted = range(self.partition_count) if partitions is None else partitions
        found = [self._lines_in(one, group, Position.parse(since.get(one) or "0-0").version, count) for one in wanted]
        return [one for one in found if one is not None]

    def _lines_in(self, partition: int, group: str, since: int, count: int) -> FeedLines | None:
        feed, delivered = self._server.feeds[partition], self._server.delivered.get((group, partition), 0)
        waiting = [number_of(item) - 1 for item, _, _ in self._server.unacknowledged_in(group, partition)]
        done = max(since, min(waiting, default=delivered))
        lines = [item for item in feed if number_of(item) > done]
        if not lines:
            return None
        page = lines[:count]
        trimmed = done < number_of(feed[0]) - 1
        return FeedLines(partition, tuple(page), page[-1].place, trimmed, len(page) == len(lines))

    async def feeds(self) -> list[FeedFacts]:
        feeds = [self._server.feeds[one] for one in range(self.partition_count)]
        return [
            FeedFacts(
                partition=one,
                last=feed[-1] if feed else None,
                feed_count=len(feed),
                groups=self._groups(one) if feed else (),
            )
            for one, feed in enumerate(feeds)
        ]

    def _groups(self, partition: int) -> tuple[GroupFacts, ...]:
        server = self._server
        return tuple(
            GroupFacts(
                name=name,
                consumer_count=len({consumer for _, consumer, _ in server.unacknowledged_in(name, partition)}),
                pel_count=len(server.unacknowledged_in(name, partition)),
                delivered=f"0-{server.delivered[name, partition]}",
            )
            for name in sorted({name for name, one in server.delivered if one == partition})
        )

    async def drop_consumers(self, group: str, idle_ms: int, consumer: str | None = None) -> None:
        """Consumers have no names of their own here."""

    async def project(self, partition: int, advances: Sequence[ViewAdvance], writes: Sequence[ViewWrite]) -> bool:
        views = self._server.views[partition]
        held = views[CHECKPOINTS_VIEW]
        if any(checkpoint_in(as_bytes(held.get(one.key.name, b"0-0"))) != one.expected for one in advances):
            return False
        for write in writes:
            write_view(views[write.view], write)
        held.update({one.key.name: str(one.at).encode() for one in advances if one.at != one.expected})
        return True

    async def drop_views(self, partition: int, names: Sequence[str]) -> None:
        for name in (CHECKPOINTS_VIEW, CENSUS, *names):
            self._server.views[partition].pop(name, None)

    async def views(self) -> Mapping[int, Sequence[str]]:
        held = {one: [name for name, fields in views.items() if fields] for one, views in self._server.views.items()}
        return {partition: names for partition, names in held.items() if names}

    async def read_views(self, partition: int, names: Sequence[str]) -> dict[str, Mapping[str, bytes]]:
        held = self._server.views[partition]
        return {name: {field: as_bytes(value) for field, value in held[name].items()} for name in names}

    async def view_fields(self, wanted: Sequence[WantedFields]) -> list[list[bytes | None]]:
        found = [(self._server.views[one.partition][one.view], one.fields) for one in wanted]
        return [[as_bytes(held[name]) if name in held else None for name in names] for held, names in found]

    async def view_page(
        self, view: str, prefix: str, count: int | None, after: str = "", *, backwards: bool = False
    ) -> list[str]:
        fields = [
            name for views in self._server.views.values() for name in views.get(view, {}) if name.startswith(prefix)
        ]
        most = len(fields) if count is None else count
        if backwards:
            return heapq.nlargest(most, (field for field in fields if not after or field < after))
        return heapq.nsmallest(most, (field for field in fields if field > after))

    async def look_up(self, view: str | None, prefix: str = "", count: int = 0) -> FoundFields:
        server, partitions = self._server, range(self.partition_count)
        skipped = [StreamKey.parse(name) for name in await self.view_page(SKIPPED, "", None)]
        unprojected = [item.key for one in partitions for item in self._unfinished(one)]
        incomplete = [one for one in partitions if self._is_incomplete(one)]
        return FoundFields(
            fields=[] if view is None else await self.view_page(view, prefix, count),
            unprojected=list(dict.fromkeys([*skipped, *unprojected])),
            incomplete=incomplete,
            read=[one for one in incomplete if server.delivered.get((PROJECTORS, one))],
        )

    def _unfinished(self, partition: int) -> list[FeedItem]:
        """Return the lines of a feed that the projectors have not acknowledged, also those that were trimmed."""
        delivered = self._server.delivered.get((PROJECTORS, partition), 0)
        delivered_lines = [item for item, _, _ in self._server.unacknowledged_in(PROJECTORS, partition)]
        return [*delivered_lines, *(item for item in self._server.feeds[partition] if number_of(item) > delivered)]

    def _is_incomplete(self, partition: int) -> bool:
        census, feed = self._server.views[partition][CENSUS], self._server.feeds[partition]
        if CENSUS_BEGUN not in census or census[CENSUS_BEGUN] != census.get(CENSUS_DONE):
            return True
        delivered = self._server.delivered.get((PROJECTORS, partition), 0)
        return len(feed) >= FEED_LENGTH_COUNT and delivered < number_of(feed[0])

    async def seal(self, key: StreamKey, seal: Seal, old: Seal | None = None) -> bool:
        check_sealable(key)
        encode_seal(seal)
        server, head = self._server, self._head(key)
        if head.seal == seal:
            return True
        is_late = self.clock.now_ms() > seal.sealed_ms + SEALING_MS
        if head.seal != old or (old is None and head.at != seal.head) or is_late or seal.file in server.closed_files:
            return False
        server.seals[key] = seal
        if old is None:
            del server.streams[key]
            server.due.pop(key.id, None)
            self._feed(key, seal.head.version, is_move=True)
        elif seal.head != old.head:
            self._tell(key, [Entry(*seal.head, b"")], inline=False)
        return True

    async def close_file(self, keys: Sequence[StreamKey], file: str) -> None:
        self._server.closed_files.add(file)

    def _unseal(self, key: StreamKey, seal: Seal, entries: Sequence[Entry], due: Due | None) -> bool:
        check_entries(key, seal, entries)
        server = self._server
        if key in server.streams:
            return any(one[:3] == entries[-1][:3] for one in server.streams[key])
        if server.seals.get(key) != seal:
            return False
        del server.seals[key]
        server.streams[key] = list(entries)
        self._note_due(key.id, due)
        self._tell(key, list(entries), inline=False, is_move=True)
        return True

    async def restore(self, key: StreamKey, after: Position | Seal, entries: Sequence[Entry], due: Due | None) -> bool:
        if isinstance(after, Seal):
            return self._unseal(key, after, entries, due)
        held = self._server.entries_in(key)
        if (held[-1].position if held else START) != after:
            return bool(held) and held[-1][:3] == entries[-1][:3]
        self._server.streams.setdefault(key, []).extend(entries)
        self._note_due(key.id, due)
        self._tell(key, list(entries))
        return True

    async def rewrite(self, key: StreamKey, versions: Sequence[int], following: Following) -> None:
        result = None
        while (append := await following(result)) is not None:
            result = self.append(append)
            if isinstance(result, Appended):
                held = self._server.streams[key]
                held[:] = [one._replace(content=None) if one.version in versions else one for one in held]

    async def rewrite_files(self) -> list[FilesRewritten]:
        return [FilesRewritten(server="memory", append_only_file="off", snapshot_file="off", slow_log="off")]

    async def server_facts(self) -> list[dict[str, str]]:
        return [{"server_name": "memory"}]

    async def check_writable(self) -> None:
        return

    async def notes(self, name: str) -> Mapping[str, bytes]:
        return dict(self._server.notes.get(name, {}))

    async def note(self, name: str, field: str, value: bytes, *, once: bool = False) -> None:
        held = self._server.notes.setdefault(name, {})
        if not once or field not in held:
            held[field] = value

    async def note_reads(self, kind: str, lines: Sequence[bytes], count_max: int, oldest_ms: int) -> None:
        held = self._server.reads.setdefault(kind, [])
        now_ms = self.clock.now_ms()
        held += [(now_ms, line) for line in lines]
        held[:] = [one for one in held if one[0] >= oldest_ms][-count_max:]

    async def reads(self, kind: str, since_ms: int, count: int) -> list[tuple[int, bytes]]:
        return [one for one in self._server.reads.get(kind, []) if one[0] >= since_ms][-count:]


def _fits_inline(entries: Sequence[Entry]) -> bool:
    """Return whether a wake-up carries the entries: each takes a line for its id, its payload and its content."""
    sizes = [len(f"\n{one.position}\n\n") + len(one.payload) + len(one.content or b"") for one in entries]
    return sum(sizes) <= INLINE_WAKE_UP_BYTES


def number_of(item: FeedItem) -> int:
    """Return the position of a line in its partition's feed."""
    return Position.parse(item.place).version


def write_view(held: dict[str, bytes | int], write: ViewWrite) -> None:
    """Make a change of a view in what is held of it."""
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


def as_bytes(value: bytes | int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
