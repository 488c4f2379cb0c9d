"""Streams as the views know them: the indexes of ids, and the positions that the views are as of.

`projections` writes these views. No decision depends on them: they name streams, which are read then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Final

import msgspec

from ledger.stores.admin import WantedFields
from ledger.stores.divided import CHECKPOINTS_VIEW, DividedView, checkpoint_in, summary_in
from ledger.stores.port import Position, Store, StreamKey

COMPARED_AT_ONCE_COUNT: Final = 500

_SEPARATOR: Final = "\n"


def pointer(from_id: str, to: str = "") -> str:
    """Return the field of an index that leads from an id to a stream; without `to` the prefix of all of that id."""
    return f"{from_id}{_SEPARATOR}{to}"


def pointed(field: str) -> tuple[str, str]:
    """Return the id and the target of a field of an index."""
    from_id, _, to = field.partition(_SEPARATOR)
    return from_id, to


async def fields_of_streams(
    store: Store, view: DividedView, wanted: Sequence[tuple[StreamKey, str]]
) -> list[bytes | None]:
    """Return fields of a view that is divided by the ids of streams, each with the stream that it tells of."""
    places: dict[tuple[str, int], list[int]] = {}
    for index, (key, _) in enumerate(wanted):
        places.setdefault((view.of(key.id), store.partition_of(key)), []).append(index)
    found = await store.views.fields_of_each(
        [WantedFields(*place, [wanted[index][1] for index in some]) for place, some in places.items()]
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


class SessionRow(msgspec.Struct, frozen=True):
    """The summary of a session as of the entry `at_ms`-`version`. Times are server ms."""

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


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """A row as it is held beside the checkpoint: a MessagePack array. Times are told by how long before its entry they are.

    The last event of a session is mostly near its others, and a small number takes a byte or three instead of nine.
    """

    project: str | None
    agent: str | None
    parent: str | None
    opened_before_ms: int | None
    closed_before_ms: int | None
    pending: int
    dialect: str | None
    imported_before_ms: int | None
    token_id: str | None
    answered_before_ms: int | None


_stored_decoder: Final = msgspec.msgpack.Decoder(_Stored)


def stored_row(row: SessionRow) -> bytes:
    """Return a row as it is held beside the checkpoint."""

    def before(ms: int | None) -> int | None:
        return None if ms is None else row.at_ms - ms

    return msgspec.msgpack.encode(
        _Stored(
            row.project,
            row.agent,
            row.parent,
            before(row.opened_ms),
            before(row.closed_ms),
            row.pending,
            row.dialect,
            before(row.imported_ms),
            row.token_id,
            before(row.answered_ms),
        )
    )


def session_row_of(at: Position, summary: bytes) -> SessionRow:
    """Return the row of a session from its checkpoint and what is held beside it."""
    held = _stored_decoder.decode(summary)

    def time(before_ms: int | None) -> int | None:
        return None if before_ms is None else at.ms - before_ms

    return SessionRow(
        held.project,
        held.agent,
        held.parent,
        time(held.opened_before_ms),
        time(held.closed_before_ms),
        at.ms,
        at.version,
        held.pending,
        held.dialect,
        time(held.imported_before_ms),
        held.token_id,
        time(held.answered_before_ms),
    )


async def projects_of(store: Store, sessions: Iterable[str]) -> dict[str, str | None]:
    """Return the projects of the sessions that were projected already; a session's project never changes."""
    names = list(sessions)
    rows = await session_rows(store, names)
    return {name: row.project for name, row in zip(names, rows, strict=True) if row is not None}


async def session_rows(store: Store, sessions: Sequence[str]) -> list[SessionRow | None]:
    """Return the rows of sessions; None where nothing was projected."""
    keys = [StreamKey("session", one) for one in sessions]
    found = await fields_of_streams(store, CHECKPOINTS_VIEW, [(key, key.name) for key in keys])
    return [
        None if (summary := summary_in(value)) is None else session_row_of(checkpoint_in(value), summary)
        for value in found
    ]


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
