"""A walk over all streams, step by step, that finds lagging views which no feed tells of.

Its place is noted on the server, so that it goes on after a restart, and all processes that walk share it. A round that
is owed (`want`) is made at once: the first one of all, and one after a feed has dropped lines that nobody read. No
process holds the keys of more than one step.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from ledger.stores.keys import CENSUS, VIEWS_FORMAT
from ledger.stores.port import KEYS_AT_ONCE_COUNT, Store, StreamKey
from ledger.stores.values import CENSUS_BEGUN, CENSUS_DONE, CHECKPOINTS_VIEW, ViewWrite, WantedFields
from projections.lag import streams_behind

NOTES: Final = f"walk-{VIEWS_FORMAT}"
"""The name of the notes: views of another format need a round of their own."""

STEP_KEYS_COUNT: Final = 1000
"""Keys after which a step ends; the bound of a walk is so many in each of its steps."""


class _Round(msgspec.Struct, frozen=True, kw_only=True):
    """A round: the wish that it fulfils, and its place: a page of streams, then a partition with views, or the end.

    After it, under the name `census`, the feeds name every stream that is ahead (`ledger.stores.values.CENSUS_BEGUN`).
    """

    wish: int
    owed: bool
    census: str
    cursor: str = ""
    partition: int | None = None
    ended: bool = False


class Stepped(msgspec.Struct, frozen=True, kw_only=True):
    """A step: the streams that were behind, and whether the round is over, and was owed."""

    behind: int
    ended: bool
    owed: bool


class StreamWalk:
    """Walks over all streams, and brings up those whose views lag."""

    def __init__(self, store: Store, catch_up: Callable[[Sequence[StreamKey]], Awaitable[object]]) -> None:
        self._store = store
        self._catch_up = catch_up

    async def want(self, trimmed: Sequence[int] = ()) -> None:
        """Note that hints were lost: a whole round is owed. One that is under way is ended first.

        The feeds of the partitions `trimmed` do not name all streams that are ahead, until that round is over.
        """
        await self._write_census(trimmed, {CENSUS_BEGUN: None, CENSUS_DONE: None})
        wish, _ = await _noted(self._store)
        await self._store.note(NOTES, "wish", str(wish + 1).encode())

    async def owes(self) -> bool:
        """Return whether a round is owed, so that views may lag for long without it."""
        wish, last = await _noted(self._store)
        return last is None or last.wish < wish or (last.owed and not last.ended)

    async def step(self, *, begin: bool = True) -> Stepped:
        """Go on with the round under way, or begin one if one is owed, or else where `begin` says so."""
        wish, last = await _noted(self._store)
        is_owed = last is None or last.wish < wish
        if last is None or last.ended:
            if not is_owed and not begin:
                return Stepped(behind=0, ended=True, owed=False)
            last = await self._begin(wish, is_owed=is_owed)
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
        return Stepped(behind=behind, ended=last.ended, owed=last.owed or is_owed)

    async def _begin(self, wish: int, *, is_owed: bool) -> _Round:
        """Begin a round, and with it the census of the partitions that have none."""
        without, census = await uncounted(self._store), secrets.token_hex(8)
        await self._write_census(without, {CENSUS_BEGUN: census.encode()})
        return _Round(wish=wish, owed=is_owed or bool(without), census=census)

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
