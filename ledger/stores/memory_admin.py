"""Reads of views and administration of a ledger in this process's memory."""

from __future__ import annotations

import heapq
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ledger.core.errors import InputError
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.admin import (
    PROJECTORS,
    SKIPPED,
    FilesRewritten,
    FoundFields,
    GroupFacts,
    OwedLines,
    PartitionFacts,
    RawEntry,
    ShortStream,
    WantedFields,
)
from ledger.stores.memory_seals import MemorySealing, entries_in
from ledger.stores.port import START, Append, Appended, AppendResult, Due, Entry, FeedItem, Position, StreamKey
from ledger.stores.redis.deployment import SECRET_BYTES

if TYPE_CHECKING:
    from ledger.stores.memory import MemoryServer, MemoryStore


class MemoryViews:
    """An implementation of `ledger.stores.admin.ViewReader` in memory."""

    def __init__(self, store: MemoryStore, server: MemoryServer) -> None:
        self._store = store
        self._server = server

    async def read(self, partition: int, names: Sequence[str]) -> dict[str, Mapping[str, bytes]]:
        return {name: await self._store.view(name, partition) for name in names}

    async def fields(self, view: str, partition: int, fields: Sequence[str]) -> list[bytes | None]:
        return [await self._store.view_field(view, partition, field) for field in fields]

    async def fields_of_each(self, wanted: Sequence[WantedFields]) -> list[list[bytes | None]]:
        return [await self.fields(*one) for one in wanted]

    async def names(self, view: str, partition: int) -> list[str]:
        return list(await self._store.view(view, partition))

    async def page(self, view: str, prefix: str, count: int, after: str = "", *, backwards: bool = False) -> list[str]:
        fields = await self.starting(view, prefix)
        if backwards:
            return heapq.nlargest(count, (field for field in fields if not after or field < after))
        return heapq.nsmallest(count, (field for field in fields if field > after))

    async def starting(self, view: str, prefix: str) -> list[str]:
        return sorted(
            field for views in self._server.views.values() for field in views.get(view, {}) if field.startswith(prefix)
        )

    async def look_up(self, view: str | None, prefix: str = "", count: int = 0) -> FoundFields:
        server = self._server
        partitions = range(self._store.partition_count)
        skipped = [name for own in server.views.values() for name in own.get(SKIPPED, {})]
        ahead = [item.key for one in partitions for item in self._unfinished(one)]
        return FoundFields(
            fields=[] if view is None else (await self.starting(view, prefix))[:count],
            ahead=list(dict.fromkeys([*map(StreamKey.parse, skipped), *ahead])),
            unsure=[one for one in partitions if self._is_unsure(one)],
        )

    def _unfinished(self, partition: int) -> list[FeedItem]:
        """Return the lines of a feed that the projectors have not acknowledged, also those that were trimmed."""
        delivered = self._server.delivered.get((PROJECTORS, partition), 0)
        owed = [item for item, _, _ in self._server.unacknowledged[PROJECTORS].values()]
        return [
            *(item for item in owed if item.item_id.startswith(f"{partition}/")),
            *(item for item in self._server.feeds[partition] if number_of(item) > delivered),
        ]

    def _is_unsure(self, partition: int) -> bool:
        begun, feed = self._server.census_begun.get(partition), self._server.feeds[partition]
        if begun is None or begun != self._server.census_done.get(partition):
            return True
        if not feed:
            return False
        delivered = self._server.delivered.get((PROJECTORS, partition), 0)
        return len(feed) >= FEED_LENGTH_COUNT and delivered < number_of(feed[0])

    async def counts(self, view: str) -> list[dict[str, int]]:
        found = [await self._store.view(view, one) for one in range(self._store.partition_count)]
        return [{field: int(value) for field, value in one.items()} for one in found]

    async def survey(self) -> Mapping[int, Sequence[str]]:
        held = {
            partition: [name for name, fields in views.items() if fields]
            for partition, views in self._server.views.items()
        }
        return {partition: names for partition, names in held.items() if names}


class MemoryRewrite:
    """An implementation of `ledger.stores.admin.StreamRewrite` in memory."""

    def __init__(self, store: MemoryStore, server: MemoryServer, key: StreamKey, versions: Sequence[int]) -> None:
        self._store = store
        self._server = server
        self._key = key
        self._versions = frozenset(versions)

    async def finish(self, append: Append) -> AppendResult:
        result = self._store.append(append)
        if isinstance(result, Appended):
            held = self._server.streams[self._key]
            held[:] = [one._replace(content=None) if one.version in self._versions else one for one in held]
        return result

    async def close(self) -> None:
        """Nothing is left."""


class MemoryAdmin(MemorySealing):
    """An implementation of `ledger.stores.admin.Admin` in memory."""

    async def secret(self) -> bytes:
        return self._server.secret

    async def link_key(self) -> bytes:
        return self._server.link_key or self._server.secret

    async def replace_link_key(self) -> None:
        self._server.link_key = secrets.token_bytes(SECRET_BYTES)

    def __init__(self, store: MemoryStore, server: MemoryServer) -> None:
        self._store = store
        self._server = server

    async def take_turn(self, name: str, holder: str, lease_ms: int) -> bool:
        now_ms = self._server.clock.now_ms()
        held = self._server.turns.get(name)
        if held is not None and held[0] != holder and now_ms < held[1]:
            return False
        self._server.turns[name] = (holder, now_ms + lease_ms)
        return True

    async def note_reads(self, kind: str, lines: Sequence[bytes], count_max: int, oldest_ms: int) -> None:
        held = self._server.reads.setdefault(kind, [])
        now_ms = self._server.clock.now_ms()
        held += [(now_ms, line) for line in lines]
        held[:] = [one for one in held if one[0] >= oldest_ms][-count_max:]

    async def reads(self, kind: str, since_ms: int, count: int) -> list[tuple[int, bytes]]:
        return [one for one in self._server.reads.get(kind, []) if one[0] >= since_ms][-count:]

    async def end_turn(self, name: str, holder: str) -> None:
        if name in self._server.turns and self._server.turns[name][0] == holder:
            del self._server.turns[name]

    async def turns_held(self, names: Sequence[str]) -> frozenset[str]:
        now_ms, turns = self._server.clock.now_ms(), self._server.turns
        return frozenset(name for name in names if name in turns and now_ms < turns[name][1])

    async def raw(self, key: StreamKey, after: Position, count: int) -> tuple[RawEntry, ...]:
        entries = await self._store.read(key, after, count)
        return tuple(RawEntry(str(entry.position), _fields(entry)) for entry in entries)

    async def short_streams(self, keys: Sequence[StreamKey], count: int) -> list[ShortStream | None]:
        return [await self._short(key, count) for key in keys]

    async def _short(self, key: StreamKey, count: int) -> ShortStream | None:
        if key in self._server.seals:
            return None
        info, entries = await self._store.info(key), await self._store.read(key, START, count)
        return None if info is None or len(entries) >= count else ShortStream(info, entries)

    async def heads(self, keys: Sequence[StreamKey]) -> list[Position]:
        return [self._head(key) for key in keys]

    def _head(self, key: StreamKey) -> Position:
        if key in self._server.seals:
            return self._server.seals[key].head
        entries = self._server.streams.get(key)
        return entries[-1].position if entries else START

    async def restore(self, key: StreamKey, after: Position, entries: Sequence[Entry], due: Due | None) -> bool:
        held = entries_in(self._server, key)
        if (held[-1].position if held else START) != after:
            return bool(held) and held[-1][:3] == entries[-1][:3]
        self._server.streams.setdefault(key, []).extend(entries)
        if due is not None:
            self._server.due[key.id] = math.inf if due.ms is None else float(due.ms)
        self._store.tell(key, list(entries))
        return True

    def rewrite(self, key: StreamKey, versions: Sequence[int]) -> MemoryRewrite:
        return MemoryRewrite(self._store, self._server, key, versions)

    async def rewrite_files(self) -> list[FilesRewritten]:
        return [FilesRewritten(server="memory", append_only_file="off", snapshot_file="off", slow_log="off")]

    async def places(self, partitions: Sequence[int], group: str, idle_ms: int | None = None) -> dict[int, str]:
        return {one: self._place(one, group, idle_ms) for one in partitions if self._server.feeds[one]}

    def _place(self, partition: int, group: str, idle_ms: int | None) -> str:
        if not self._server.is_known(group, partition):
            return ""
        now_ms = self._store.clock.now_ms()
        owed = [
            number_of(item)
            for item, _, since in self._server.unacknowledged[group].values()
            if idle_ms is not None and now_ms - since >= idle_ms and item.item_id.startswith(f"{partition}/")
        ]
        return str(min((self._server.delivered[group, partition], *owed)))

    async def trimmed(self, places: Mapping[int, str]) -> list[int]:
        return [one for one, place in places.items() if self._has_trimmed(self._server.feeds[one], place)]

    def _has_trimmed(self, feed: Sequence[FeedItem], place: str) -> bool:
        if not place:
            return len(feed) >= FEED_LENGTH_COUNT
        return bool(feed) and int(place) < number_of(feed[0])

    async def uncounted(self, partitions: Sequence[int]) -> list[int]:
        begun, done = self._server.census_begun, self._server.census_done
        return [one for one in partitions if one not in begun or begun[one] != done.get(one)]

    async def begin_census(self, partitions: Sequence[int], census: str) -> None:
        self._server.census_begun.update(dict.fromkeys(partitions, census))

    async def end_census(self, partitions: Sequence[int], census: str) -> None:
        self._server.census_done.update(dict.fromkeys(partitions, census))

    async def withdraw_census(self, partitions: Sequence[int]) -> None:
        for one in partitions:
            self._server.census_begun.pop(one, None)
            self._server.census_done.pop(one, None)

    async def owed(
        self, group: str, since: Mapping[int, str], count: int, partitions: Sequence[int] | None = None
    ) -> list[OwedLines]:
        wanted = range(self._store.partition_count) if partitions is None else partitions
        found = [self._owed_in(one, group, since.get(one, ""), count) for one in wanted]
        return [one for one in found if one is not None]

    async def feed_ends(self) -> list[FeedItem]:
        feeds = [self._server.feeds[one] for one in range(self._store.partition_count)]
        return [feed[-1] for feed in feeds if feed]

    def _owed_in(self, partition: int, group: str, since: str, count: int) -> OwedLines | None:
        feed = self._server.feeds[partition]
        if not feed:
            return None
        done = max(int(since or 0), self._dealt_with(group, partition))
        lines = [item for item in feed if number_of(item) > done]
        if not lines:
            return None
        page = lines[:count]
        trimmed = done < number_of(feed[0]) - 1
        return OwedLines(partition, tuple(page), str(number_of(page[-1])), trimmed, len(page) == len(lines))

    def _dealt_with(self, group: str, partition: int) -> int:
        """Return the last line up to which the group has acknowledged all."""
        if not self._server.is_known(group, partition):
            return 0
        owed = [number_of(item) - 1 for item, _, _ in self._owed(group, partition)]
        return min(owed, default=self._server.delivered[group, partition])

    async def streams_page(self, cursor: str, count: int) -> tuple[list[StreamKey], str]:
        if cursor and not cursor.isdecimal():
            raise InputError(f"`{cursor[:80]}` is not a cursor that was handed out")
        keys, first = list(self._server.streams), int(cursor or 0)
        return keys[first : first + count], str(first + count) if first + count < len(keys) else ""

    async def notes(self, name: str) -> Mapping[str, bytes]:
        return dict(self._server.notes.get(name, {}))

    async def note(self, name: str, field: str, value: bytes) -> None:
        self._server.notes.setdefault(name, {})[field] = value

    async def forget_consumers(self, partitions: Sequence[int], group: str, idle_ms: int) -> None:
        """Consumers have no names of their own here."""

    async def leave_group(self, partitions: Sequence[int], group: str, consumer: str) -> None:
        """Consumers have no names of their own here."""

    async def partitions(self) -> list[PartitionFacts]:
        due = [self._store.partition_of(StreamKey("session", session)) for session in self._server.due]
        return [
            PartitionFacts(
                partition=one,
                feed_count=len(self._server.feeds[one]),
                due_count=due.count(one),
                groups=self._groups(one),
            )
            for one in range(self._store.partition_count)
        ]

    def _groups(self, partition: int) -> tuple[GroupFacts, ...]:
        names = sorted({name for name, one in self._server.delivered if one == partition})
        return tuple(
            GroupFacts(
                name=name,
                consumer_count=len({consumer for _, consumer, _ in self._owed(name, partition)}),
                pel_count=len(self._owed(name, partition)),
                lag_count=sum(
                    number_of(item) > self._server.delivered[name, partition] for item in self._server.feeds[partition]
                ),
            )
            for name in names
            if self._server.feeds[partition]
        )

    def _owed(self, group: str, partition: int) -> list[tuple[FeedItem, str, int]]:
        owed = self._server.unacknowledged[group].values()
        return [line for line in owed if line[0].item_id.startswith(f"{partition}/")]

    async def facts_of_each_server(self) -> list[dict[str, str]]:
        return [await self.server_facts()]

    async def set_back_ms(self) -> int:
        return 0

    async def check_writable(self) -> None:
        return

    async def server_facts(self) -> dict[str, str]:
        return {"server_name": "memory"}


def _fields(entry: Entry) -> tuple[tuple[bytes, bytes], ...]:
    payload = (b"d", entry.payload)
    return (payload,) if entry.content is None else (payload, (b"x", entry.content))


def number_of(item: FeedItem) -> int:
    """Return the position of a line in its partition's feed."""
    return int(item.place)
