"""Resuming from an id: the events since then, read from the log by any gateway.

A reader that resumes the whole ledger's events receives every entry after the horizon that its id does not name, in
order of time. The id has the total number of entries. If those found do not make up the difference (a server's clock
was set back, a failover lost entries), the reader gets no gap: it starts again with a snapshot.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import msgspec

from ledger.core.errors import InputError, LedgerError
from ledger.log.history import read_events
from ledger.stores.port import Position, StreamKey
from workers.gateway.events.cursors import Ahead, FeedCursor, SessionCursor, tag_of
from workers.gateway.events.frames import Frame, frames_of
from workers.gateway.events.hub import Hub
from workers.gateway.events.ring import Item

RESUMED_COUNT_MAX: Final = 50_000
"""Limit of missed entries; a reader that missed more starts again with what is pending now."""

KEPT_COUNT: Final = 20_000
"""Cached events that were read for one reader: after a restart all readers resume at once."""

CLOCK_MARGIN_MS: Final = 60_000
"""Tolerance for an id from a node whose clock is ahead."""

_LAST_VERSION: Final = 2**53


class Missed(NamedTuple):
    """Missed events, sent before the reader continues with the ring at `number`; `place` is its position then."""

    items: list[Item]
    number: int
    place: str


class _Part(msgspec.Struct, frozen=True):
    """Part of one stream: the entries after `told`, up to `head`."""

    key: StreamKey
    told: Ahead
    head: Position


class Resuming:
    """Reads events again that were published before."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._kept: OrderedDict[StreamKey, list[Frame]] = OrderedDict()
        self._kept_count = 0
        self._reading: dict[StreamKey, asyncio.Lock] = {}

    # --- one session ------------------------------------------------------------------------------------------------

    async def of_session(self, key: StreamKey, cursor: SessionCursor, head: Position) -> AsyncIterator[Item]:
        """Yield the events after the cursor, up to the entry `head`. Raises InputError first for an unknown id."""
        before = Position(cursor.at.ms, cursor.at.version - 1)
        found = await self._hub.store.read(key, before, 1) if cursor.at.version > 0 else ()
        if not found or found[0].position != cursor.at:
            raise InputError(
                f"session `{key.id}` has no event `{cursor}`; leave `Last-Event-ID` out to begin anew",
                session=key.id,
            )
        return self._of_session(key, cursor, head)

    async def _of_session(self, key: StreamKey, cursor: SessionCursor, head: Position) -> AsyncIterator[Item]:
        parts = _LAST_VERSION if cursor.parts is None else cursor.parts
        async for frame in self._frames(key, cursor.at.version - 1, head.version):
            if frame.at.version > cursor.at.version or frame.part > parts:
                part = None if frame.part == frame.parts else frame.part
                yield Item(frame, str(SessionCursor(frame.at, part)))

    async def _frames(self, key: StreamKey, after: int, upto: int) -> AsyncIterator[Frame]:
        fold = self._hub.fold_of(key)
        state = fold.initial(key)
        lineage: tuple[str, ...] = ()
        async for recorded in read_events(self._hub.store, key):
            if recorded.version > upto:
                return
            before, state = state, fold.evolve(state, recorded)
            if recorded.version == 1:
                lineage = await self._hub.lineage_of(getattr(state, "parent", None))
            if recorded.version > after:
                for frame in frames_of(key, recorded, before, state, lineage):
                    yield frame

    # --- the whole ledger -------------------------------------------------------------------------------------------

    async def of_all(self, cursor: FeedCursor) -> Missed | None:
        """Return the events after the cursor; None when they are not available. Raises InputError for a future id."""
        if cursor.horizon_ms > self._hub.store.clock.now_ms() + CLOCK_MARGIN_MS:
            raise _of_the_future()
        for is_last in (False, True):
            number, place, total = self._hub.ring.end, self._hub.cursor, self._hub.total
            parts = await self._parts(cursor)
            missing = sum(part.head.version - part.told.version for part in parts)
            if cursor.total + missing == total:
                if missing > RESUMED_COUNT_MAX:
                    return None
                frames = await self._missed(parts)
                return Missed(_numbered(cursor, frames), number, place)
            if is_last:
                break
            # Another gateway may have published entries that this one has not received yet.
            await self._hub.verify()
        if cursor.total > total:
            raise _of_the_future()
        return None

    async def _parts(self, cursor: FeedCursor) -> list[_Part]:
        """Return the streams with further entries, as of the moment of the call."""
        after = [(key, head, cursor.ahead.get(tag_of(key))) for key, head in self._hub.since(cursor.horizon_ms)]
        known = [_Part(key, told, head) for key, head, told in after if told is not None]
        unknown = [(key, head) for key, head, told in after if told is None]
        horizon = Position(cursor.horizon_ms, _LAST_VERSION)
        found = await asyncio.gather(*(self._hub.store.read(key, horizon, 1) for key, _ in unknown))
        for (key, head), entries in zip(unknown, found, strict=True):
            if entries:
                known.append(_Part(key, Ahead(entries[0].version - 1), head))
        return [part for part in known if part.told.version != part.head.version]

    async def _missed(self, parts: list[_Part]) -> list[Frame]:
        frames: list[Frame] = []
        for part in parts:
            again = await self._again(part.key, part.told.version, part.head.version)
            frames += (one for one in again if one.at.version > part.told.version + 1 or one.part > part.told.parts)
        # Times within one stream never decrease, so this keeps the order of each.
        return sorted(frames, key=lambda frame: (frame.at.ms, frame.key.name, frame.at.version, frame.part))

    async def _again(self, key: StreamKey, after: int, upto: int) -> list[Frame]:
        async with self._reading.setdefault(key, asyncio.Lock()):
            kept = self._kept.get(key)
            if not kept or kept[0].at.version > after + 1 or kept[-1].at.version < upto:
                kept = [frame async for frame in self._frames(key, after, upto)]
                self._keep(key, kept)
        self._reading.pop(key, None)
        return [frame for frame in kept if after < frame.at.version <= upto]

    def _keep(self, key: StreamKey, frames: list[Frame]) -> None:
        self._kept_count += len(frames) - len(self._kept.pop(key, ()))
        self._kept[key] = frames
        while self._kept_count > KEPT_COUNT and self._kept:
            _, dropped = self._kept.popitem(last=False)
            self._kept_count -= len(dropped)

    def forget(self) -> None:
        """Empty the cache after the readers that reconnected together were served."""
        self._kept.clear()
        self._kept_count = 0


def _numbered(cursor: FeedCursor, frames: list[Frame]) -> list[Item]:
    """Return each frame with the id of a reader who has received everything up to it."""
    ahead, times = dict(cursor.ahead), dict[str, int]()
    horizon_ms, total = cursor.horizon_ms, cursor.total
    items: list[Item] = []
    for frame in frames:
        tag = tag_of(frame.key)
        is_whole = frame.part == frame.parts
        if frame.at.ms - 1 > horizon_ms:
            horizon_ms = frame.at.ms - 1
            for passed in [one for one, ms in times.items() if ms <= horizon_ms]:
                ahead.pop(passed, None)
                del times[passed]
        total += is_whole
        ahead[tag] = Ahead(frame.at.version) if is_whole else Ahead(frame.at.version - 1, frame.part)
        if is_whole:
            times[tag] = frame.at.ms
        items.append(Item(frame, str(FeedCursor(cursor.ledger, horizon_ms, total, dict(ahead)))))
    return items


def _of_the_future() -> LedgerError:
    return InputError("this event id is of the future; leave `Last-Event-ID` out to begin anew")
