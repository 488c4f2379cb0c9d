"""Search for past sessions by project, parent, agent, person, outcome and date. Reads pages of the views, a moment
behind the log; what is read for one answer does not grow with the sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

import msgspec

from ledger.core.errors import InputError
from ledger.core.events import Outcome
from ledger.core.times import parse_time
from ledger.log.places import scope_of
from ledger.stores.port import Store
from projections import queries
from projections.sessions import Latest
from workers.gateway.principals import Principal
from workers.gateway.rows import Row
from workers.gateway.scopes import scopes_within

EXAMINED_COUNT: Final = 1000
"""Sessions examined for one answer, newest first; `cursor` continues after them."""

EXAMINED_AT_ONCE_COUNT: Final = 200
"""Sessions read at once where a filter leaves some out."""


SessionSort = Literal["latest", "last_answered", "most_asked", "most_rejected"]
"""The order of a search: newest event first, newest answer of a person first, or by the number of requests that were
asked, or that people rejected."""


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a search. Times are server ms: `since_ms` of a session's last event, `until_ms` of its opening."""

    project: str | None = None
    parent: str | None = None
    agent: str | None = None
    person: str | None = None
    outcome: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    open_only: bool = False


async def find_sessions(
    store: Store, principal: Principal, wanted: SessionFilter, cursor: str | None, limit: int
) -> Row:
    """Return one page, newest first; its `cursor` is the start of the next page, None at the end. Raises InputError.

    A page of a search that leaves much out may be short, or empty, with a `cursor`.
    """
    if wanted.outcome is not None and wanted.outcome not in Outcome.__args__:  # type: ignore[attr-defined]
        raise InputError(f"unknown outcome `{wanted.outcome}`; use one of {', '.join(Outcome.__args__)}")  # type: ignore[attr-defined]
    after = None if cursor is None else Latest.of_cursor(cursor)
    found: list[Row] = []
    examined = 0
    # One more than fits tells whether there is another page.
    count = limit + 1 if wanted == SessionFilter() else max(limit + 1, EXAMINED_AT_ONCE_COUNT)
    while examined < EXAMINED_COUNT:
        places = await _places(store, principal, wanted, after, count)
        matching = await _matching(store, principal, wanted, places)
        for place in places:
            if wanted.since_ms is not None and place.ms < wanted.since_ms:
                return _page(found, None)
            if len(found) == limit:
                return _page(found, after)
            found += [matching[place.session]] if place.session in matching else []
            after = place
        if len(places) < count:
            return _page(found, None)
        examined += len(places)
    return _page(found, after)


async def find_sorted(store: Store, principal: Principal, wanted: SessionFilter, sort: SessionSort, limit: int) -> Row:
    """Return the first sessions in another order than by time, of the newest ones that are examined for one answer.

    `among` is how many matched, and `is_cut` whether older sessions were left out. There is no `cursor`.
    """
    found = await find_sessions(store, principal, wanted, None, EXAMINED_COUNT)
    rows = sorted(found["sessions"], key=lambda row: (-_rank(row, sort), -parse_time(row["at"]), row["session"]))
    is_cut = found["cursor"] is not None
    return {"sessions": rows[:limit], "cursor": None, "among": len(rows), "is_cut": is_cut}


def _rank(row: Row, sort: SessionSort) -> int:
    if sort == "last_answered":
        return 0 if row["answered_at"] is None else parse_time(row["answered_at"])
    outcomes: dict[str, int] = row["outcomes"]
    if sort == "most_asked":
        return sum(outcomes.values()) + int(row["pending"])
    return outcomes.get("rejected", 0) + outcomes.get("corrected", 0)


def _page(found: list[Row], last: Latest | None) -> Row:
    return {"sessions": found, "cursor": None if last is None else last.cursor}


async def _places(
    store: Store, principal: Principal, wanted: SessionFilter, after: Latest | None, count: int
) -> list[Latest]:
    """Return the next sessions of the narrowest list that has all within reach that are wanted."""
    if principal.sessions:
        rows = await queries.session_summaries(store, principal.sessions)
        places = sorted((Latest(parse_time(row["at"]), row["session"]) for row in rows), key=lambda one: one.order)
        return [one for one in places if after is None or one.order > after.order][:count]
    return await queries.latest_sessions(store, count, scopes=_scopes(principal, wanted), after=after)


def _scopes(principal: Principal, wanted: SessionFilter) -> list[str]:
    if wanted.parent is not None and principal.bounds.own is None:
        return [scope_of("parent", wanted.parent)]
    return scopes_within(principal, wanted.project)


async def _matching(
    store: Store, principal: Principal, wanted: SessionFilter, places: Sequence[Latest]
) -> dict[str, Row]:
    """Return the rows of the sessions within reach that are wanted."""
    rows = await queries.session_summaries(store, [one.session for one in places])
    rows = [row for row in rows if principal.reaches(row["session"], row["project"], row.get("token_id"))]
    people = None
    if wanted.person is not None:
        people = await queries.answered_by(store, wanted.person, [row["session"] for row in rows])
    return {row["session"]: row for row in rows if _matches(row, wanted, people)}


def _matches(row: Row, wanted: SessionFilter, people: Collection[str] | None) -> bool:
    return (
        wanted.project in (None, row["project"])
        and wanted.parent in (None, row["parent"])
        and wanted.agent in (None, row["agent"])
        and (people is None or row["session"] in people)
        and (wanted.outcome is None or bool(row["outcomes"].get(wanted.outcome)))
        and (wanted.since_ms is None or parse_time(row["at"]) >= wanted.since_ms)
        and (wanted.until_ms is None or parse_time(row["opened_at"] or row["at"]) <= wanted.until_ms)
        and not (wanted.open_only and row["closed_at"] is not None)
    )
