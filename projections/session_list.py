"""The sessions in pages as of the log: read from the views, and from the streams with events that these lack.

No worker needs to run. A projector that keeps up leaves nothing to read but the page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from ledger.log.places import ALL, scope_of
from ledger.log.streams import Streams
from ledger.log.surveys import Listed, ListPage, Survey, Until, ViewPage, completed, survey
from ledger.log.viewed import unprojected
from ledger.stores.port import StreamKey
from ledger.stores.store import Store
from projections import queries
from projections.queries import Row
from projections.sessions import LATEST_VIEW, Latest, summary_of

NAMES: Final = (
    *("session", "project", "agent", "parent", "opened_at", "closed_at", "at", "version", "pending", "dialect"),
    *("answered_at", "imported_at"),
)
"""The members of a row, in order; `imported_at` is only in those of imported sessions."""


class SessionList:
    """The sessions of a ledger, of a project, or below a parent session."""

    def __init__(
        self, store: Store, streams: Streams, *, project: str | None = None, parent: str | None = None
    ) -> None:
        self._store = store
        self._streams = streams
        self._project = project
        self._parent = parent

    async def pages(self, after: Latest | None, count: int) -> AsyncIterator[ListPage[Row]]:
        """Iterate over the sessions after a place, in pages of about `count`. Raises StoreError."""
        behind = frozenset(key for key in await unprojected(self._store) if key.kind == "session")
        read = await self._read(sorted(behind))
        fresh = [one for one in read.rows if after is None or one.order > after.order]
        async for page in completed(fresh, read.problems, self._of_views(behind, after, count)):
            yield page

    async def _of_views(
        self, behind: frozenset[StreamKey], after: Latest | None, count: int
    ) -> AsyncIterator[ViewPage[Row]]:
        """Iterate over the sessions as the views list them, without those ahead."""
        while True:
            places = await queries.latest_sessions(self._store, count, scopes=[self._scope], after=after)
            known = [one for one in places if StreamKey("session", one.session) not in behind]
            found = await self._as_of_now(known)
            is_last = len(places) < count
            yield ViewPage(found.rows, found.problems, None if is_last else Until(places[-1].order, places[-1].cursor))
            if is_last:
                return
            after = places[-1]

    @property
    def _scope(self) -> str:
        if self._parent is not None:
            return scope_of("parent", self._parent)
        return ALL if self._project is None else scope_of("project", self._project)

    async def _as_of_now(self, places: Sequence[Latest]) -> Survey[Listed[Row]]:
        """Return sessions at their places, those that have moved since their views were made as their streams are."""
        summaries = await queries.session_summaries(self._store, [one.session for one in places])
        rows = {row["session"]: row for row in summaries if self._is_here(row)}
        keys = [StreamKey("session", session) for session in rows]
        heads = await self._store.heads(keys)
        moved = [key for key, head in zip(keys, heads, strict=True) if head.at.version != rows[key.id]["version"]]
        read = await self._read(moved)
        for key in moved:
            del rows[key.id]
        rows |= {one.row["session"]: one.row for one in read.rows}
        found = [_listed(one, rows[one.session]) for one in places if one.session in rows]
        return Survey(found, read.problems)

    async def _read(self, keys: Sequence[StreamKey]) -> Survey[Listed[Row]]:
        """Read sessions from their streams; only rows are kept of them."""

        async def read(key: StreamKey) -> Listed[Row] | None:
            state = await self._streams.session(key.id).refresh()
            row = summary_of(state)
            is_shown = state.opened_ms is not None and self._is_here(row)
            return _listed(Latest(state.last_ms, state.session_id), row) if is_shown else None

        found = await survey(keys, read)
        return Survey([one for one in found.rows if one is not None], found.problems)

    def _is_here(self, row: Mapping[str, object]) -> bool:
        return (
            row["opened_at"] is not None
            and self._project in (None, row["project"])
            and self._parent in (None, row["parent"])
        )


def _listed(place: Latest, row: Row) -> Listed[Row]:
    return Listed(place.order, place.cursor, {name: row[name] for name in NAMES if name in row})


async def oldest_first(store: Store, after: Latest | None, count: int) -> AsyncIterator[list[Latest]]:
    """Iterate over the sessions after a place, in pages of about `count`, the longest idle one first. Raises StoreError.

    A session that goes on meanwhile moves to the end, which is still to come. So every session comes at least once, and
    one that goes on after it came, comes again.
    """
    keys = sorted(key for key in await unprojected(store) if key.kind == "session")
    behind = frozenset(key.id for key in keys)
    heads = await store.heads(keys)
    # A stream without entries, or that is none any more, comes first: its reader says what is wrong.
    moved = [Latest(head.at.ms, key.id) for key, head in zip(keys, heads, strict=True)]
    left = [one for one in moved if after is None or one.order < after.order]
    while True:
        begin = "" if after is None else ALL + after.order
        fields = await store.view_page(LATEST_VIEW, ALL, count, begin, backwards=True)
        places = [Latest.of_field(field) for field in fields]
        is_last = len(places) < count
        due = left if is_last else [one for one in left if one.order > places[-1].order]
        left = [] if is_last else [one for one in left if one.order <= places[-1].order]
        found = [*(one for one in places if one.session not in behind), *due]
        yield sorted(found, key=lambda place: place.order, reverse=True)
        if is_last:
            return
        after = places[-1]
