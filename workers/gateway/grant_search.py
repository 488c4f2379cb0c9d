"""Pages of the grants in force that a caller reaches, as of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from ledger.client.grant_list import GrantList
from ledger.core.errors import DamageError
from ledger.log.completed import Listed
from ledger.log.places import GrantPlace
from ledger.log.surveys import StreamProblem
from projections import queries
from workers.gateway.gateway import Gateway
from workers.gateway.inboxes import problem_rows
from workers.gateway.principals import Principal
from workers.gateway.rows import Row

PAGES_COUNT: Final = 3
"""Pages that are looked through for one answer, where grants have expired or are out of reach."""


async def find_grants(gateway: Gateway, principal: Principal, cursor: str | None, limit: int) -> Row:
    """Return one page, oldest first; its `cursor` is the start of the next page, None at the end. Raises InputError.

    A page may be short, or empty, with a `cursor`.
    """
    last = cursor
    found: list[Row] = []
    problems: list[StreamProblem] = []
    pages = 0
    grants = GrantList(gateway.ledger.store, gateway.ledger.streams, projects=principal.projects)
    # One more than fits tells whether there is another page.
    async for page in grants.pages(None if cursor is None else GrantPlace.of_cursor(cursor), limit + 1):
        problems += page.problems
        owners = await _owners(gateway, principal, page.rows)
        for one in page.rows:
            if len(found) == limit:
                return _page(principal, found, problems, last)
            if _reaches(principal, one, owners):
                found.append(one.row)
            last = one.cursor
        pages, last = pages + 1, page.cursor
        if pages == PAGES_COUNT:
            break
    return _page(principal, found, problems, last)


def _page(principal: Principal, found: list[Row], problems: list[StreamProblem], cursor: str | None) -> Row:
    return {"grants": found, "problems": problem_rows(principal, problems), "cursor": cursor}


async def _owners(gateway: Gateway, principal: Principal, rows: Sequence[Listed[Row]]) -> dict[str, str | None]:
    """Return the tokens that own the sessions of these grants, for a caller that reaches its own sessions only."""
    if principal.bounds.own is None:
        return {}
    sessions = {one.row["session"] for one in rows if one.row["scope"] == "session"}
    known = {row["session"]: row for row in await queries.session_summaries(gateway.ledger.store, sorted(sessions))}
    owners = {session: row.get("token_id") for session, row in known.items()}
    for session in sessions - known.keys():
        with suppress(DamageError):
            owners[session] = (await gateway.ledger.streams.session(session).refresh()).token_id
    return owners


def _reaches(principal: Principal, one: Listed[Row], owners: Mapping[str, str | None]) -> bool:
    session, project = one.row["session"], one.row["project"]
    if one.row["scope"] == "project":
        return project is not None and principal.reaches_project(project)
    return session is not None and principal.reaches(session, project, owners.get(session))
