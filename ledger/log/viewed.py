"""Streams as the views know them: the indexes of ids, and the positions that the views are as of.

`projections` writes these views. No decision depends on them: they name streams, which are read then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ledger.log.archive.archive import all_streams
from ledger.log.surveys import paged
from ledger.stores.port import CHECKPOINTS_VIEW, Position, StreamKey, WantedFields, checkpoint_in
from ledger.stores.store import Store

REQUESTS_VIEW: Final = "requests"
"""Each request id with its session."""

GRANTS_VIEW: Final = "grants"
"""Each grant's id with its stream, revoked ones included."""

USES_VIEW: Final = "uses"
"""The sessions in which each grant of a project let a call through."""

USED_VIEW: Final = "used"
"""The last time (server ms) at which each grant let a call through."""

SESSIONS_VIEW: Final = "sessions"
"""The summary of each session."""

COMPARED_AT_ONCE_COUNT: Final = 500


async def fields_of_streams(store: Store, view: str, wanted: Sequence[tuple[StreamKey, str]]) -> list[bytes | None]:
    """Return fields of a view, each with the stream that it tells of."""
    places: dict[int, list[int]] = {}
    for index, (key, _) in enumerate(wanted):
        places.setdefault(key.partition(store.partition_count), []).append(index)
    found = await store.view_fields(
        [WantedFields(view, place, [wanted[index][1] for index in some]) for place, some in places.items()]
    )
    values: list[bytes | None] = [None] * len(wanted)
    for some, held in zip(places.values(), found, strict=True):
        for index, value in zip(some, held, strict=True):
            values[index] = value
    return values


async def checkpoints(store: Store, keys: Sequence[StreamKey]) -> list[Position]:
    """Return the position that each stream's views are as of; 0-0 where there is none."""
    found = await fields_of_streams(store, CHECKPOINTS_VIEW, [(key, key.name) for key in keys])
    return [checkpoint_in(value) for value in found]


async def projects_of(store: Store, sessions: Iterable[str]) -> dict[str, str | None]:
    """Return the projects of the sessions that were projected already; a session's project never changes."""
    rows = await session_rows(store, list(sessions))
    return {row["session"]: row["project"] for row in rows if row is not None}


async def session_rows(store: Store, sessions: Sequence[str]) -> list[dict[str, Any] | None]:
    """Return the summaries of sessions; None where nothing was projected."""
    found = await fields_of_streams(store, SESSIONS_VIEW, [(StreamKey("session", one), one) for one in sessions])
    return [None if value is None else msgspec.json.decode(value) for value in found]


class ViewLag(NamedTuple):
    """The entry that the views of a stream are as of, and the stream's last one."""

    at: Position
    head: Position

    @property
    def events(self) -> int:
        """Return the events that the views do not have; 0 where the stream lost events that they have."""
        return max(self.head.version - self.at.version, 0)


async def streams_behind(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, ViewLag]:
    """Return those of the streams whose views are not as of their last entry; also where that was lost."""
    # The checkpoints first: read after the heads, they might be ahead of them.
    known = await checkpoints(store, keys)
    heads = await store.heads(keys)
    return {key: ViewLag(at, head.at) for key, at, head in zip(keys, known, heads, strict=True) if at != head.at}


def pages_of_streams(store: Store, partitions: Collection[int] | None) -> AsyncIterator[list[StreamKey]]:
    """Iterate over all streams of some partitions (None: all), page by page."""
    count = store.partition_count
    wanted = (key async for key in all_streams(store) if partitions is None or key.partition(count) in partitions)
    return paged(wanted, COMPARED_AT_ONCE_COUNT)


async def are_views_lost(store: Store) -> bool:
    """Return whether a projector has read a feed whose views are not compared with the log: they were dropped, or lag.

    Lists of what waits rest on the index of deadlines alone then.
    """
    return bool((await store.look_up(None)).read)


async def unprojected(store: Store) -> set[StreamKey]:
    """Return the streams that no projector has finished.

    Where no projector has compared all streams of a partition with their views, they are compared now.
    """
    looked_up = await store.look_up(None)
    found = set(looked_up.unprojected)
    if looked_up.incomplete:
        async for keys in pages_of_streams(store, frozenset(looked_up.incomplete)):
            found.update(await streams_behind(store, keys))
    return found
