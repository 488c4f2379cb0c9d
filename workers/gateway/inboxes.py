"""Pending requests by session, session tree, project or agent: nearest deadline first, or most dangerous first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from ledger.client.pending_list import PendingList, Waiting
from ledger.client.results import Pending, result_of
from ledger.core.ids import is_id
from ledger.core.times import format_time_or_none
from ledger.log.inboxes import gone_anywhere
from ledger.log.places import ALL, WaitingPlace, scope_of
from ledger.log.surveys import ListPage, StreamProblem
from ledger.log.viewed import are_views_lost
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from workers.gateway.descriptions import (
    Row,
    answering_facts,
    danger_kinds_of,
    described,
    described_in_a_row,
    result_row,
)
from workers.gateway.events.hints import lineage_of
from workers.gateway.gateway import Gateway
from workers.gateway.principals import Principal
from workers.presentation.labels import danger_rank

SCOPES_COUNT: Final = 8
"""Projects that are listed each by itself for a token bound to some; beyond them, the list of all is filtered."""


def scopes_within(principal: Principal, project: str | None) -> list[str]:
    """Return the narrowest lists that have what a caller reaches, in one project or in all (None)."""
    if principal.bounds.own is not None:
        return [scope_of("token", principal.bounds.own)]
    if project is not None:
        return [scope_of("project", project)]
    if 0 < len(principal.projects) <= SCOPES_COUNT:
        return [scope_of("project", one) for one in principal.projects]
    return [ALL]


PENDING_COUNT_MAX: Final = 5000

EXAMINED_COUNT: Final = PENDING_COUNT_MAX
"""Requests examined for one answer, nearest deadline first; `cursor` continues after them."""

RANKED_COUNT: Final = 500
"""Requests compared by danger for one answer, nearest deadline first."""

RANKED_SECONDS: Final = 0.3
"""Time for comparing them: the first card of the inbox waits for it, and agents write long calls."""

AT_ONCE_COUNT: Final = 200
"""The least number of requests that are read at once."""

AT_ONCE_SECONDS: Final = 0.01
"""Time for making rows before other tasks run."""


PendingForm = Literal["card", "row"]
"""Whether a list has all of each request, or what one line of it shows."""


class PendingFilter(msgspec.Struct, frozen=True, kw_only=True):
    session: str | None = None
    request: str | None = None
    tree: str | None = None
    project: str | None = None
    agent: str | None = None
    gone: bool = False
    """Select only requests whose asker is gone."""
    form: PendingForm = "card"


async def find_pending(
    gateway: Gateway, principal: Principal, wanted: PendingFilter, cursor: str | None, limit: int
) -> Row:
    """Return one page of rows, each with its project and its lineage (the root first). Raises InputError.

    Its `cursor` is the start of the next page, None at the end. A page of a search that leaves much out may be short,
    or empty, with a `cursor`.
    """
    listed = await _find(gateway, principal, wanted, cursor, limit)
    return await _page(principal, wanted, listed, listed.found)


async def find_one(gateway: Gateway, principal: Principal, session: str, request_id: str, form: PendingForm) -> Row:
    """Return one request as a page; where it does not wait any more, its outcome is in `settled`."""
    wanted = PendingFilter(session=session, request=request_id, form=form)
    page = await find_pending(gateway, principal, wanted, None, 1)
    if page["pending"] or not is_id(session):
        return {**page, "settled": []}
    state = await gateway.ledger.streams.session(session).as_of_now()
    if request_id not in state.settled or not principal.reaches_state(state):
        return {**page, "settled": []}
    result = result_of(state, request_id)
    place = {"project": state.project, "lineage": await _lineage(gateway, principal, state)}
    return {**page, "settled": [{**result_row(result), **place}]}


async def find_most_dangerous(gateway: Gateway, principal: Principal, wanted: PendingFilter, limit: int) -> Row:
    """Return the first rows by effect, then by danger and by deadline.

    Compared are at most `RANKED_COUNT` requests with the nearest deadlines. After `RANKED_SECONDS` no more than `limit`
    are. `among` is the number of those that were, and `is_cut` tells whether there are others. There are no further pages.
    """
    listed = await _find(gateway, principal, wanted, None, RANKED_COUNT)
    ranks: list[int] = []
    until = time.monotonic() + RANKED_SECONDS
    async for one in _paced(listed.found):
        if len(ranks) >= limit and time.monotonic() > until:
            break
        ranks.append(danger_rank(danger_kinds_of(one.pending), one.pending.request.evaluation))
    # Sorting keeps the order of deadlines among equals.
    order = sorted(range(len(ranks)), key=ranks.__getitem__)[:limit]
    page = await _page(principal, wanted, listed, [listed.found[index] for index in order])
    return {
        **page,
        "cursor": None,
        "among": len(ranks),
        "is_cut": listed.cursor is not None or len(ranks) < len(listed.found),
    }


async def _find(
    gateway: Gateway, principal: Principal, wanted: PendingFilter, cursor: str | None, limit: int
) -> _Listed:
    last = cursor
    found: list[_Found] = []
    problems: list[StreamProblem] = []
    examined = 0
    after = None if cursor is None else WaitingPlace.of_cursor(cursor)
    async for page in _pages(gateway, principal, wanted, after, limit):
        problems += page.problems
        matching = await _matching(gateway, principal, wanted, page.items)
        for one in page.rows:
            if len(found) == limit:
                return _Listed(found, problems, last)
            if (known := matching.get(_place(one.row))) is not None:
                found.append(known)
            last = one.cursor
        examined, last = examined + len(page.rows), page.cursor
        if examined >= EXAMINED_COUNT:
            break
    is_listed = not (examined or cursor or _sessions(principal, wanted))
    rebuilding = is_listed and await are_views_lost(gateway.ledger.store)
    return _Listed(found, problems, last, rebuilding)


def _pages(
    gateway: Gateway, principal: Principal, wanted: PendingFilter, after: WaitingPlace | None, limit: int
) -> AsyncIterator[ListPage[Waiting]]:
    """Iterate over the narrowest list that has all within reach that is wanted."""
    store, streams = gateway.ledger.store, gateway.ledger.streams
    if sessions := _sessions(principal, wanted):
        return PendingList(store, streams).in_sessions(filter(is_id, sessions), after)
    listed = PendingList(store, streams, scopes=scopes_within(principal, wanted.project))
    # One more than fits tells whether there is another page.
    return listed.pages(after, max(limit + 1, AT_ONCE_COUNT))


def _sessions(principal: Principal, wanted: PendingFilter) -> Sequence[str]:
    """Return the sessions that are read without a list; none where a list is."""
    return principal.sessions if wanted.session is None else (wanted.session,)


async def _matching(
    gateway: Gateway, principal: Principal, wanted: PendingFilter, rows: Sequence[Waiting]
) -> dict[tuple[str, str], _Found]:
    """Return the requests within reach that are wanted, by session and request."""
    states = {one.state.session_id: one.state for one in rows if principal.reaches_state(one.state)}
    above = {
        session: await _lineage(gateway, principal, state)
        for session, state in states.items()
        if _wanted(state, wanted)
    }
    if wanted.tree is not None:
        above = {session: names for session, names in above.items() if wanted.tree in (*names, session)}
    gone = await gone_anywhere(gateway.ledger.store, above)
    found = (
        _Found(one.pending, one.state, above[one.state.session_id], gone.get(_place(one)))
        for one in rows
        if one.state.session_id in above
        and wanted.request in (None, one.pending.request.request_id)
        and wanted.agent in (None, one.pending.request.agent, one.state.agent)
    )
    return {_place(one): one for one in found if one.gone_ms is not None or not wanted.gone}


class _Found(NamedTuple):
    pending: Pending
    state: SessionState
    above: list[str]
    gone_ms: int | None


def _place(one: Waiting | _Found) -> tuple[str, str]:
    return one.pending.session, one.pending.request.request_id


class _Listed(NamedTuple):
    found: list[_Found]
    problems: list[StreamProblem]
    cursor: str | None
    rebuilding: bool = False
    """Nothing waits as far as can be told, but the views are not complete."""


async def _page(principal: Principal, wanted: PendingFilter, listed: _Listed, found: Sequence[_Found]) -> Row:
    rows = await _rows(found, described_in_a_row if wanted.form == "row" else described)
    problems = problem_rows(principal, listed.problems)
    told = {"rebuilding": True} if listed.rebuilding else {}
    return {"pending": rows, "count": len(rows), "problems": problems, "cursor": listed.cursor, **told}


async def _rows(found: Sequence[_Found], made: Callable[[Pending], Row]) -> list[Row]:
    """Return rows of the selected requests only."""
    rows: list[Row] = []
    async for one in _paced(found):
        place = {"asker_gone_at": format_time_or_none(one.gone_ms), "project": one.state.project, "lineage": one.above}
        rows.append({**made(one.pending), **place, **answering_facts(one.state)})
    return rows


async def _paced(found: Sequence[_Found]) -> AsyncIterator[_Found]:
    """Iterate over requests to describe. Describing a long call is slow, so other tasks run in between."""
    until = time.monotonic() + AT_ONCE_SECONDS
    for one in found:
        yield one
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + AT_ONCE_SECONDS


def problem_rows(principal: Principal, problems: Sequence[StreamProblem]) -> list[Row]:
    """Return the streams that cannot be read and that the caller may see; their project is unknown."""
    return [one.as_json() for one in problems if _may_see(principal, one.key)]


def _may_see(principal: Principal, key: StreamKey) -> bool:
    return principal.reaches_project(key.id) if key.kind == "project" else principal.reaches(key.id, None, None)


def _wanted(state: SessionState, wanted: PendingFilter) -> bool:
    return wanted.session in (None, state.session_id) and wanted.project in (None, state.project)


async def _lineage(gateway: Gateway, principal: Principal, state: SessionState) -> list[str]:
    return await lineage_of(gateway.ledger.streams, state, principal.reaches_state)
