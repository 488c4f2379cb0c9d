"""Streams as the views know them: the indexes of ids, and the positions that the views are as of.

`projections` writes these views. No decision depends on them: they name streams, which are read then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Final

import msgspec

from ledger.stores.port import START, Position, Store, StreamKey

HEADS_VIEW: Final = "heads"
"""The entry that each stream's views are as of."""

SESSIONS_VIEW: Final = "sessions"
"""The summary of each session, one row each."""

USES_VIEW: Final = "uses"
"""The sessions in which each grant of a project let a call through."""

COMPARED_AT_ONCE_COUNT: Final = 500

_SEPARATOR: Final = "\n"


def pointer(from_id: str, to: str = "") -> str:
    """Return the field of an index that leads from an id to a stream; without `to` the prefix of all of that id."""
    return f"{from_id}{_SEPARATOR}{to}"


def pointed(field: str) -> tuple[str, str]:
    """Return the id and the target of a field of an index."""
    from_id, _, to = field.partition(_SEPARATOR)
    return from_id, to


async def checkpoints(store: Store, keys: Sequence[StreamKey]) -> list[Position]:
    """Return the position that each stream's views are as of; 0-0 where there is none."""
    by_partition: dict[int, list[StreamKey]] = {}
    for key in keys:
        by_partition.setdefault(store.partition_of(key), []).append(key)
    found = await asyncio.gather(
        *(store.views.fields(HEADS_VIEW, one, [key.name for key in some]) for one, some in by_partition.items())
    )
    known = {
        key: START if value is None else Position.parse(value.decode())
        for some, values in zip(by_partition.values(), found, strict=True)
        for key, value in zip(some, values, strict=True)
    }
    return [known[key] for key in keys]


class SessionRow(msgspec.Struct, frozen=True, array_like=True):
    """The summary of a session, a row of `sessions`: a MessagePack array. Times are server ms."""

    project: str | None
    agent: str | None
    parent: str | None
    opened_ms: int | None
    closed_ms: int | None
    at_ms: int
    version: int
    pending: int
    dialect: str | None
    imported_ms: int | None
    token_id: str | None
    answered_ms: int | None


_row_decoder: Final = msgspec.msgpack.Decoder(SessionRow)


def session_row_of(value: bytes) -> SessionRow:
    """Return a row of the view `sessions`."""
    return _row_decoder.decode(value)


async def projects_of(store: Store, sessions: Iterable[str]) -> dict[str, str | None]:
    """Return the projects of the sessions that were projected already; a session's project never changes."""
    by_partition: dict[int, list[str]] = {}
    for session in sessions:
        by_partition.setdefault(store.partition_of(StreamKey("session", session)), []).append(session)
    found = await asyncio.gather(*(store.views.fields(SESSIONS_VIEW, one, some) for one, some in by_partition.items()))
    return {
        session: session_row_of(row).project
        for some, rows in zip(by_partition.values(), found, strict=True)
        for session, row in zip(some, rows, strict=True)
        if row is not None
    }


async def ahead_among(store: Store, keys: Sequence[StreamKey]) -> list[StreamKey]:
    """Return those of some streams whose views are not as of their last entry."""
    # The checkpoints first: read after the heads, they might be ahead of them.
    known = await checkpoints(store, keys)
    heads = await store.admin.heads(keys)
    return [key for key, at, head in zip(keys, known, heads, strict=True) if at != head]


async def pages_of_streams(store: Store, partitions: Collection[int] | None) -> AsyncIterator[list[StreamKey]]:
    """Iterate over all streams of some partitions (None: all), page by page."""
    page: list[StreamKey] = []
    async for key in store.streams():
        if partitions is None or store.partition_of(key) in partitions:
            page.append(key)
        if len(page) >= COMPARED_AT_ONCE_COUNT:
            yield page
            page = []
    if page:
        yield page
