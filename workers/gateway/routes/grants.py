"""Grants: listed, made, revoked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from litestar import delete, get, post
from litestar.params import JSONBody

from ledger import Session
from ledger.client.grant_list import GrantList
from ledger.client.results import Approved
from ledger.core.errors import DamageError, InputError, UnknownGrantError
from ledger.core.ids import check_id
from ledger.core.times import parse_duration
from ledger.log.places import GrantPlace
from ledger.log.surveys import Listed, StreamProblem
from ledger.stores.port import StreamKey
from projections import queries
from workers.gateway.asks import IdempotencyKey, derived
from workers.gateway.bodies import GrantBody
from workers.gateway.descriptions import Row
from workers.gateway.gateway import Gateway, Id, Limit, OptionalText, TheGateway, ThePrincipal
from workers.gateway.inboxes import problem_rows
from workers.gateway.principals import Principal
from workers.gateway.settings import PAGE_COUNT_MAX

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


@get("/v1/grants", operation_id="list_grants")
async def list_grants(
    gateway: TheGateway,
    principal: ThePrincipal,
    session: OptionalText = None,
    project: OptionalText = None,
    cursor: OptionalText = None,
    limit: Limit = PAGE_COUNT_MAX,
) -> Row:
    """Return the grants in force in a session (its own and its project's), in a project, or a page of those anywhere."""
    if session is not None and project is not None:
        raise InputError("give `session` or `project`, not both")
    if session is not None:
        found = await (await gateway.session(session, principal)).approved()
    elif project is not None:
        principal.require_project(project)
        found = await gateway.ledger.approved_in_project(project)
    else:
        return await find_grants(gateway, principal, cursor, limit)
    return {"grants": [one.as_json() for one in found]}


@post("/v1/grants", status_code=201, operation_id="create_grant")
async def create_grant(
    data: JSONBody[GrantBody], gateway: TheGateway, principal: ThePrincipal, idempotency_key: IdempotencyKey = None
) -> Row:
    """Make grants without a request: one of the answer's `grants` for each of `patterns`."""
    if (data.session is None) == (data.project is None):
        raise InputError("give either `session` or `project`")
    if data.pattern is not None and data.patterns is not None:
        raise InputError("give `pattern` or `patterns`, not both")
    patterns = data.patterns if data.pattern is None else [data.pattern]
    if not patterns:
        raise InputError("give at least one pattern; `*` is any use of the permission")
    expires_in_ms = None if data.expires is None else parse_duration(data.expires, "time to live")
    made: list[Approved] = []
    for index, pattern in enumerate(patterns):
        key = derived(principal, idempotency_key, f"grant\n{index}")
        more: dict[str, Any] = {
            "expires_in_ms": expires_in_ms,
            "uses": data.uses,
            "reason": data.reason,
            "grant_id": None if key is None else f"grn_{key}",
            "actor": principal.actor,
        }
        if data.project is not None:
            principal.require_project(data.project)
            made.append(await gateway.ledger.grant_in_project(data.project, data.permission, pattern, **more))
        else:
            session = await gateway.session(str(data.session), principal)
            made.append(await session.grant(data.permission, pattern, **more))
    rows = [one.as_json() for one in made]
    return {"grants": rows} if data.pattern is None else rows[0]


@delete("/v1/grants/{grant:str}", operation_id="revoke_grant")
async def revoke_grant(grant: Id, gateway: TheGateway, principal: ThePrincipal, reason: OptionalText = None) -> None:
    """Revoke a grant; after this response it allows nothing."""
    await _in_reach(gateway, principal, grant)
    await gateway.ledger.revoke(grant, reason=reason, actor=principal.actor)


@get("/v1/grants/{grant:str}/uses", operation_id="list_grant_uses")
async def list_grant_uses(grant: Id, gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the calls that a grant let through, in order of time, those in the caller's reach; also of an ended one."""
    key = await _in_reach(gateway, principal, grant)
    found = await gateway.ledger.uses_of(grant)
    reached = {one: await _reaches_session(gateway, principal, one) for one in {use.session for use in found.rows}}
    rows = [use.as_json() for use in found.rows if reached[use.session]]
    return {"grant_id": grant, "stream": key.name, "uses": rows, "problems": problem_rows(principal, found.problems)}


async def _in_reach(gateway: Gateway, principal: Principal, grant: str) -> StreamKey:
    """Return the stream of a grant. Raises UnknownGrantError, also for one beyond the caller's reach."""
    key = await gateway.ledger.stream_of_grant(check_id(grant, "grant id"))
    if key.kind == "project":
        reaches = principal.reaches_project(key.id)
    else:
        reaches = principal.reaches_state(await Session(gateway.ledger, key.id).state())
    if not reaches:
        raise UnknownGrantError(f"there is no grant `{grant}`", grant_id=grant)
    return key


async def _reaches_session(gateway: Gateway, principal: Principal, session: str) -> bool:
    """Return whether a session is within reach; one that cannot be read is only within that of its project's readers."""
    try:
        return principal.reaches_state(await gateway.ledger.streams.session(session).refresh())
    except DamageError:
        return not principal.sessions and not principal.projects
