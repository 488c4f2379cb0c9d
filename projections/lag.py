"""The lag of views behind their streams, as the feeds tell it, and a walk over all streams that finds the rest.

A feed names the streams of a partition with new events. What the projectors' group has dealt with is in the views, or
its stream is noted as one that cannot be read. So only the lines after that are looked at, and a line after which the
views are up to date is never looked at again.

The walk's place is noted on the server, so that it goes on after a restart, and all processes that walk share it. A round
that is due (`want`) is made at once: the first one of all, and one after a feed has dropped lines that nobody read. No
process holds the keys of more than one step.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.log.viewed import ViewLag, streams_behind
from ledger.stores.keys import CENSUS, PROJECTORS, VIEWS_FORMAT
from ledger.stores.port import (
    CENSUS_BEGUN,
    CENSUS_DONE,
    CHECKPOINTS_VIEW,
    SKIPPED,
    START,
    FeedFacts,
    FeedLines,
    Position,
    StreamKey,
    ViewWrite,
    WantedFields,
)
from ledger.stores.store import KEYS_AT_ONCE_COUNT, Store
from projections.queries import PartitionCounts, counts_of_partitions

LINES_AT_ONCE_COUNT: Final = 50
"""Lines of each partition's feed that are looked at together."""


class FedLag:
    """The lag of all views. Keeps, for each feed, the line up to which it has found none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since: dict[int, str] = {}
        self._reported: set[int] = set()
        self.trimmed: set[int] = set()
        """Partitions whose feed has dropped lines that nobody read: then only a walk over all streams finds the lag."""

    async def pages(self) -> AsyncIterator[dict[StreamKey, ViewLag]]:
        """Iterate over the streams that the feeds name and whose views lag, a bounded number at a time.

        A stream may come again, with a later page, while its views lag.
        """
        skipped = [StreamKey.parse(name) for name in await self._store.view_page(SKIPPED, "", None)]
        if skipped and (found := await streams_behind(self._store, skipped)):
            yield found
        read, lagging = dict(self._since), set[int]()
        while True:
            lines = await self._store.unacknowledged(PROJECTORS, read, LINES_AT_ONCE_COUNT)
            self._note_trimmed(lines)
            found = await streams_behind(self._store, list({item.key: None for one in lines for item in one.items}))
            lagging |= {key.partition(self._store.partition_count) for key in found}
            for one in lines:
                read[one.partition] = one.after
                if one.partition not in lagging:
                    self._since[one.partition] = one.after
                    self._reported.discard(one.partition)
            if found:
                yield found
            if all(one.complete for one in lines):
                return

    async def all(self) -> dict[StreamKey, ViewLag]:
        """Return all streams whose views lag, as far as the feeds tell."""
        found: dict[StreamKey, ViewLag] = {}
        async for page in self.pages():
            found |= page
        return found

    def _note_trimmed(self, lines: Sequence[FeedLines]) -> None:
        news = {one.partition for one in lines if one.trimmed} - self._reported
        self._reported |= news
        self.trimmed |= news


async def lag_counts(store: Store, feeds: Sequence[FeedFacts]) -> dict[tuple[str, int], int]:
    """Return how many lines each group was not given yet, by its name and the partition.

    They are counted: the server's own figure stays wrong after lines were trimmed before a group read them.
    """
    delivered = {(group.name, one.partition): group.delivered for one in feeds for group in one.groups}
    counts = dict.fromkeys(delivered, 0)
    for name in sorted({name for name, _ in delivered}):
        since = {partition: at for (group, partition), at in delivered.items() if group == name}
        for lines in await store.unacknowledged(name, since, FEED_LENGTH_COUNT, list(since)):
            counts[name, lines.partition] = len(lines.items)
    return counts


async def set_back_ms(store: Store) -> int:
    """Return how far the server's clock is behind the newest line of all feeds: it was set back; 0 if it was not."""
    # A feed's ids are the server's own, and never run back.
    latest_ms = [Position.parse(one.last.place).ms for one in await store.feeds() if one.last is not None]
    return max(max(latest_ms, default=0) - await store.now_ms(), 0)


async def events_behind(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, int]:
    """Return the lag of each stream's views in events, without those that have none."""
    found = await streams_behind(store, keys)
    return {key: one.events for key, one in found.items() if one.events}


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The streams and events of each partition, and the streams whose views lag.

    `trimmed`: a feed has dropped lines that nobody read, so there may be more of all than is told. `viewed`: the
    streams that have views.
    """

    partitions: list[PartitionCounts]
    behind: dict[StreamKey, ViewLag]
    behind_events: Counter[int]
    """Events that no view has, by partition."""
    trimmed: bool
    viewed: int

    @property
    def streams(self) -> int:
        return sum(one.streams for one in self.partitions)


async def overview(store: Store) -> Overview:
    """Return the contents of all partitions in brief. What is written meanwhile may be counted or not."""
    fed = FedLag(store)
    behind = await fed.all()
    counts = await counts_of_partitions(store)
    new_streams: Counter[int] = Counter()
    events: Counter[int] = Counter()
    for key, one in behind.items():
        new_streams[key.partition(store.partition_count)] += one.at == START
        events[key.partition(store.partition_count)] += one.events
    return Overview(
        partitions=[
            PartitionCounts(one.streams + new_streams[number], one.events + events[number])
            for number, one in enumerate(counts)
        ],
        behind=behind,
        behind_events=events,
        trimmed=bool(fed.trimmed),
        viewed=sum(one.streams for one in counts),
    )


NOTES: Final = f"walk-{VIEWS_FORMAT}"
"""The name of the notes: views of another format need a round of their own."""

STEP_KEYS_COUNT: Final = 1000
"""Keys after which a step ends; the bound of a walk is so many in each of its steps."""


class _Round(msgspec.Struct, frozen=True, kw_only=True):
    """A round: the wish that it fulfils, and its place: a page of streams, then a partition with views, or the end.

    After it, under the name `census`, the feeds name every stream that is ahead (`ledger.stores.port.CENSUS_BEGUN`).
    """

    wish: int
    due: bool = True
    census: str
    cursor: str = ""
    partition: int | None = None
    ended: bool = False


class Stepped(msgspec.Struct, frozen=True, kw_only=True):
    """A step: the streams that were behind, and whether the round is over, and was due."""

    behind: int
    ended: bool
    due: bool


class StreamWalk:
    """Walks over all streams, and brings up those whose views lag."""

    def __init__(self, store: Store, catch_up: Callable[[Sequence[StreamKey]], Awaitable[object]]) -> None:
        self._store = store
        self._catch_up = catch_up

    async def want(self, trimmed: Sequence[int] = ()) -> None:
        """Note that hints were lost: a whole round is due. One that is under way is ended first.

        The feeds of the partitions `trimmed` do not name all streams that are ahead, until that round is over.
        """
        await self._write_census(trimmed, {CENSUS_BEGUN: None, CENSUS_DONE: None})
        wish, _ = await _noted(self._store)
        await self._store.note(NOTES, "wish", str(wish + 1).encode())

    async def is_due(self) -> bool:
        """Return whether a round is due, so that views may lag for long without it."""
        wish, last = await _noted(self._store)
        return last is None or last.wish < wish or (last.due and not last.ended)

    async def step(self, *, begin: bool = True) -> Stepped:
        """Go on with the round under way, or begin one if one is due, or else where `begin` says so."""
        wish, last = await _noted(self._store)
        due = last is None or last.wish < wish
        if last is None or last.ended:
            if not due and not begin:
                return Stepped(behind=0, ended=True, due=False)
            last = await self._begin(wish, due=due)
        behind, count = 0, 0
        while not last.ended and count < STEP_KEYS_COUNT:
            last, keys = await self._page(last)
            lagging = list(await streams_behind(self._store, keys))
            if lagging:
                await self._catch_up(lagging)
            behind += len(lagging)
            count += max(len(keys), KEYS_AT_ONCE_COUNT if last.cursor else 0)
        if last.ended:
            # Those that another round has counted meanwhile stay so.
            await self._write_census(await uncounted(self._store), {CENSUS_DONE: last.census.encode()})
        await self._store.note(NOTES, "round", msgspec.json.encode(last))
        return Stepped(behind=behind, ended=last.ended, due=last.due or due)

    async def _begin(self, wish: int, *, due: bool) -> _Round:
        """Begin a round, and with it the census of the partitions that have none."""
        without, census = await uncounted(self._store), secrets.token_hex(8)
        await self._write_census(without, {CENSUS_BEGUN: census.encode()})
        return _Round(wish=wish, due=due or bool(without), census=census)

    async def _write_census(self, partitions: Sequence[int], fields: Mapping[str, bytes | None]) -> None:
        writes = [ViewWrite(CENSUS, name, value) for name, value in fields.items()]
        await asyncio.gather(*(self._store.project(one, (), writes) for one in partitions))

    async def _page(self, at: _Round) -> tuple[_Round, list[StreamKey]]:
        """Return the next place, and the streams up to it."""
        if at.partition is None:
            keys, cursor = await self._store.streams_page(at.cursor, KEYS_AT_ONCE_COUNT)
            return msgspec.structs.replace(at, cursor=cursor, partition=None if cursor else 0), keys
        # Streams that are gone while their views are not: a server has lost them.
        found = await self._store.read_views(at.partition, [CHECKPOINTS_VIEW])
        viewed = [StreamKey.parse(name) for name in found[CHECKPOINTS_VIEW]]
        following = at.partition + 1
        return msgspec.structs.replace(at, partition=following, ended=following >= self._store.partition_count), viewed


async def place_of_walk(store: Store) -> str:
    """Return the cursor of the round under way, from which to look at other streams each time; empty without one."""
    _, last = await _noted(store)
    return "" if last is None else last.cursor


async def _noted(store: Store) -> tuple[int, _Round | None]:
    """Return the number of rounds that were wished for, and the latest round."""
    notes = await store.notes(NOTES)
    last = notes.get("round")
    return int(notes.get("wish", b"0")), None if last is None else msgspec.json.decode(last, type=_Round)


async def uncounted(store: Store) -> list[int]:
    """Return the partitions without a finished census."""
    every = range(store.partition_count)
    found = await store.view_fields([WantedFields(CENSUS, one, (CENSUS_BEGUN, CENSUS_DONE)) for one in every])
    return [one for one, (begun, done) in zip(every, found, strict=True) if begun is None or begun != done]
