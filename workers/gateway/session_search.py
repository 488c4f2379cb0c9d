"""Search for past sessions by project, agent, person, outcome and date. Reads the views, a moment behind the log."""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.core.errors import InputError
from ledger.core.events import Outcome
from ledger.core.times import parse_time
from ledger.stores.port import Store
from projections import queries
from workers.gateway.principals import Principal
from workers.gateway.rows import Row

SCANNED_COUNT: Final = 20_000
"""Sessions examined for one answer, newest first; `cursor` continues after them."""


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a search. Times are server ms: `since_ms` of a session's last event, `until_ms` of its opening."""

    project: str | None = None
    agent: str | None = None
    person: str | None = None
    outcome: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    open_only: bool = False


async def find_sessions(
    store: Store, principal: Principal, wanted: SessionFilter, cursor: str | None, limit: int
) -> Row:
    """Return one page, newest first; its `cursor` is the start of the next page, None at the end. Raises InputError."""
    if wanted.outcome is not None and wanted.outcome not in Outcome.__args__:  # type: ignore[attr-defined]
        raise InputError(f"unknown outcome `{wanted.outcome}`; use one of {', '.join(Outcome.__args__)}")  # type: ignore[attr-defined]
    begin = _begin(cursor)
    recent = (await queries.recent_sessions(store, begin + SCANNED_COUNT)).rows
    people = None if wanted.person is None else await queries.sessions_of_person(store, wanted.person)
    found: list[Row] = []
    for index, row in enumerate(recent[begin:], begin):
        if len(found) == limit:
            return {"sessions": found, "cursor": str(index)}
        if principal.reaches(row["session"], row["project"], row.get("token_id")) and _matches(row, wanted, people):
            found.append(row)
    return {"sessions": found, "cursor": None}


def _begin(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > 9:
        raise InputError(f"`{cursor[:40]}` is not a cursor that was handed out")
    return int(cursor)


def _matches(row: Row, wanted: SessionFilter, people: set[str] | None) -> bool:
    return (
        wanted.project in (None, row["project"])
        and wanted.agent in (None, row["agent"])
        and (people is None or row["session"] in people)
        and (wanted.outcome is None or bool(row["outcomes"].get(wanted.outcome)))
        and (wanted.since_ms is None or parse_time(row["at"]) >= wanted.since_ms)
        and (wanted.until_ms is None or parse_time(row["opened_at"]) <= wanted.until_ms)
        and not (wanted.open_only and row["closed_at"] is not None)
    )
