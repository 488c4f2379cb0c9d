"""A session's past events, read from the log by any gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from ledger.core.errors import InputError
from ledger.log.tail import entry_at, nothing_folded, read_folds
from ledger.stores.port import Position, StreamKey
from workers.gateway.events.cursors import SessionCursor
from workers.gateway.events.frames import frames_of
from workers.gateway.events.hub import Hub
from workers.gateway.events.ring import Item

_ALL_PARTS: Final = 2**53


async def events_after(hub: Hub, key: StreamKey, cursor: SessionCursor, head: Position) -> AsyncIterator[Item]:
    """Return the events after the cursor, up to the entry `head`. Raises InputError for an unknown id, StoreError."""
    if await entry_at(hub.store, key, cursor.at) is None:
        raise InputError(
            f"session `{key.id}` has no event `{cursor}`; leave `Last-Event-ID` out to start again",
            session=key.id,
        )
    return _events_after(hub, key, cursor, head)


async def _events_after(hub: Hub, key: StreamKey, cursor: SessionCursor, head: Position) -> AsyncIterator[Item]:
    parts = _ALL_PARTS if cursor.parts is None else cursor.parts
    after, lineage = nothing_folded(key), tuple[str, ...]()
    async for recorded, folded in read_folds(hub.store, key, after, head.version):
        before, after = after, folded
        if recorded.version == 1:
            lineage = await hub.lineage_of(getattr(after.state, "parent", None))
        if recorded.version < cursor.at.version:
            continue
        for frame in frames_of(key, recorded, before.state, after.state, lineage):
            if recorded.version > cursor.at.version or frame.part > parts:
                part = None if frame.part == frame.parts else frame.part
                yield Item(frame, str(SessionCursor(frame.at, part)))
