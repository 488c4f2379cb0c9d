"""The pending requests in pages as of the log, nearest deadline first.

The views name them, page by page, and the sessions on a page are read. Where a projector has not finished a session, it
is read too. In partitions whose views no projector has compared, so is each session that the hints of deadlines name,
which is every one with something pending: so no worker needs to run, and either of the two may be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from ledger.client.lookups import PENDING_SESSIONS_MAX, states_of
from ledger.client.results import Pending, pending_of
from ledger.log.places import ALL, WAITING_VIEW, WaitingPlace, scope_of
from ledger.log.streams import Streams
from ledger.log.surveys import Listed, ListPage, StreamProblem, Until, ViewPage, check_count, completed
from ledger.session.state import Request, SessionState
from ledger.stores.store import Store


class Waiting(NamedTuple):
    """A pending request, and the state of its session."""

    pending: Pending
    state: SessionState


class PendingList:
    """The pending requests of all sessions, or of some lists of them (`ledger.log.places.scope_of`)."""

    def __init__(self, store: Store, streams: Streams, *, scopes: Sequence[str] = (ALL,)) -> None:
        self._store = store
        self._streams = streams
        self._scopes = scopes

    async def pages(self, after: WaitingPlace | None, count: int) -> AsyncIterator[ListPage[Waiting]]:
        """Iterate over the requests after a place, in pages of about `count`. Raises StoreError."""
        unprojected = await self._unprojected()
        read = await states_of(self._streams, sorted(unprojected))
        waiting = (state for state in read.rows if not set(self._scopes).isdisjoint(scopes_of(state)))
        problems = await self._with_hints(read.problems)
        views = self._of_views(unprojected, after, count)
        async for page in completed(_listed(waiting, after), problems, views):
            yield page

    async def pending_pages(self, after: str | None, count: int) -> AsyncIterator[ListPage[Pending]]:
        """Iterate over the same after a cursor, without the sessions' states. Raises InputError, StoreError."""
        start = None if after is None else WaitingPlace.of_cursor(after)
        async for page in self.pages(start, check_count(count)):
            rows = [Listed(one.order, one.cursor, one.row.pending) for one in page.rows]
            yield ListPage(rows, page.problems, page.cursor)

    async def in_sessions(
        self, sessions: Iterable[str], after: WaitingPlace | None
    ) -> AsyncIterator[ListPage[Waiting]]:
        """Iterate over those of some sessions: one page. Raises StoreError."""
        read = await states_of(self._streams, sorted(set(sessions)))
        yield ListPage(sorted(_listed(read.rows, after), key=lambda one: one.order), read.problems, None)

    async def _unprojected(self) -> frozenset[str]:
        """Return the sessions that are read besides those that the views name."""
        looked_up = await self._store.look_up(None)
        incomplete = frozenset(looked_up.incomplete)
        found = {
            key.id
            for key in looked_up.unprojected
            if key.kind == "session" and key.partition(self._store.partition_count) not in incomplete
        }
        if incomplete:
            found.update(
                session for session, _ in await self._store.due(None, PENDING_SESSIONS_MAX, sorted(incomplete))
            )
        return frozenset(found)

    async def _with_hints(self, problems: list[StreamProblem]) -> list[StreamProblem]:
        """Return the problems of sessions with something pending, as far as the hints of deadlines tell."""
        if not problems:
            return problems
        partitions = sorted({one.key.partition(self._store.partition_count) for one in problems})
        due = {session for session, _ in await self._store.due(None, PENDING_SESSIONS_MAX, partitions)}
        return [one for one in problems if one.key.id in due]

    async def _of_views(
        self, unprojected: frozenset[str], after: WaitingPlace | None, count: int
    ) -> AsyncIterator[ViewPage[Waiting]]:
        """Iterate over what the views name, without the sessions that are read besides them."""
        while True:
            reads = [
                self._store.view_page(WAITING_VIEW, scope, count, "" if after is None else scope + after.order)
                for scope in self._scopes
            ]
            fields = [await reads[0]] if len(reads) == 1 else await asyncio.gather(*reads)
            named = {one.order: one for some in fields for one in map(WaitingPlace.of_field, some)}
            places = [named[order] for order in sorted(named)[:count]]
            wanted = [one for one in places if one.session not in unprojected]
            read = await states_of(self._streams, dict.fromkeys(one.session for one in wanted))
            is_last = len(places) < count
            until = None if is_last else Until(places[-1].order, places[-1].cursor)
            yield ViewPage(_still_pending(wanted, read.rows), read.problems, until)
            if is_last:
                return
            after = places[-1]


def scopes_of(state: SessionState) -> list[str]:
    """Return the lists in which the pending requests of a session are. Without a project it is its own project."""
    token = [] if state.token_id is None else [scope_of("token", state.token_id)]
    return [ALL, scope_of("project", state.project or state.session_id), *token]


def _listed(states: Iterable[SessionState], after: WaitingPlace | None) -> list[Listed[Waiting]]:
    """Return the pending requests of these sessions after a place."""
    found = [
        _at(WaitingPlace.of_request(state.session_id, one.request), one, state)
        for state in states
        for one in pending_of(state)
    ]
    return [one for one in found if after is None or one.order > after.order]


def _still_pending(places: Iterable[WaitingPlace], states: Iterable[SessionState]) -> list[Listed[Waiting]]:
    """Return the requests at these places, without those that have been settled meanwhile."""
    by_id = {state.session_id: state for state in states}
    found: list[Listed[Waiting]] = []
    for place in places:
        state = by_id.get(place.session)
        request: Request | None = None if state is None else state.pending.get(place.request_id)
        if state is not None and request is not None:
            found.append(_at(place, Pending(session=place.session, request=request), state))
    return found


def _at(place: WaitingPlace, pending: Pending, state: SessionState) -> Listed[Waiting]:
    return Listed(place.order, place.cursor, Waiting(pending, state))
