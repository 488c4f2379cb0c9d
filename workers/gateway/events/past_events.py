"""A session's past events, read from the log by any gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from ledger.core.errors import InputError
from ledger.log.history import read_events
from ledger.stores.port import Position, StreamKey
from workers.gateway.events.cursors import SessionCursor
from workers.gateway.events.frames import frames_of
from workers.gateway.events.hub import Hub
from workers.gateway.events.ring import Item

_ALL_PARTS: Final = 2**53


async def events_after(hub: Hub, key: StreamKey, cursor: SessionCursor, head: Position) -> AsyncIterator[Item]:
    """Return the events after the cursor, up to the entry `head`. Raises InputError for an unknown id, StoreError."""
    before = Position(cursor.at.ms, cursor.at.version - 1)
    found = await hub.store.read(key, before, 1) if cursor.at.version > 0 else ()
    if not found or found[0].position != cursor.at:
        raise InputError(
            f"session `{key.id}` has no event `{cursor}`; leave `Last-Event-ID` out to begin anew",
            session=key.id,
        )
    return _events_after(hub, key, cursor, head)


async def _events_after(hub: Hub, key: StreamKey, cursor: SessionCursor, head: Position) -> AsyncIterator[Item]:
    parts = _ALL_PARTS if cursor.parts is None else cursor.parts
    fold = hub.fold_of(key)
    state = fold.initial(key)
    lineage: tuple[str, ...] = ()
    async for recorded in read_events(hub.store, key):
        if recorded.version > head.version:
            return
        before, state = state, fold.evolve(state, recorded)
        if recorded.version == 1:
            lineage = await hub.lineage_of(getattr(state, "parent", None))
        if recorded.version < cursor.at.version:
            continue
        for frame in frames_of(key, recorded, before, state, lineage):
            if recorded.version > cursor.at.version or frame.part > parts:
                part = None if frame.part == frame.parts else frame.part
                yield Item(frame, str(SessionCursor(frame.at, part)))
