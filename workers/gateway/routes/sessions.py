"""Sessions: open, read, read the past, close."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response, get, post, put
from litestar.params import JSONBody, QueryParameter

from ledger.core.errors import DamageError, InputError, UnknownSessionError
from ledger.core.times import parse_moment, parse_time
from ledger.stores.port import StreamKey
from projections.sentences import timeline_page
from workers.gateway.bodies import OpenSession, ReasonBody
from workers.gateway.gateway import Gateway
from workers.gateway.outline import BARS_MAX, LANES_MAX, bars_row, waits_row
from workers.gateway.parameters import After, Id, Limit, OptionalText, TheGateway, ThePrincipal
from workers.gateway.principals import Principal
from workers.gateway.rows import Row, session_row_now
from workers.gateway.session_opening import open_session as open_by_rules
from workers.gateway.session_search import SessionFilter, SessionSort, find_sessions, find_sorted
from workers.gateway.settings import PAGE_COUNT_MAX
from workers.presentation.moments import approved_at, clients_of, moment_json, project_grants
from workers.upkeep.stream_checks import Checked, StreamChecker

VERSION_DIGITS_MAX = 18


@put("/v1/sessions/{session:str}", status_code=200, operation_id="open_session")
async def open_session(
    session: Id, gateway: TheGateway, principal: ThePrincipal, data: JSONBody[OpenSession | None] = None
) -> Response[Row]:
    """Open a session, or attach to it. Returns 201 when this request opened it."""
    opened, is_new = await open_by_rules(gateway, principal, session, data or OpenSession())
    return Response(await session_row_now(gateway.ledger, opened.stream.state), status_code=201 if is_new else 200)


@get("/v1/sessions", operation_id="list_sessions")
async def list_sessions(
    gateway: TheGateway,
    principal: ThePrincipal,
    project: OptionalText = None,
    parent: OptionalText = None,
    agent: OptionalText = None,
    person: OptionalText = None,
    outcome: OptionalText = None,
    since: OptionalText = None,
    until: OptionalText = None,
    open_only: Annotated[bool, QueryParameter(name="open", required=False)] = False,
    sort: Annotated[SessionSort, QueryParameter(required=False, description="`latest`: newest event first")] = "latest",
    cursor: OptionalText = None,
    limit: Limit = 100,
) -> Row:
    """Return sessions, the one with the newest event first; from the views, a moment behind the log.

    Another `sort` orders the newest 1,000 examined ones, with `among` and `is_cut` and without a `cursor`.
    """
    wanted = SessionFilter(
        project=project,
        parent=parent,
        agent=agent,
        person=person,
        outcome=outcome,
        since_ms=None if since is None else parse_time(since),
        until_ms=None if until is None else parse_time(until),
        open_only=open_only,
    )
    if sort != "latest" and cursor is not None:
        raise InputError(f"`sort={sort}` has no further pages; leave `cursor` out, or narrow the search")
    await gateway.views.of_everything()
    if sort != "latest":
        return await find_sorted(gateway.ledger.store, principal, wanted, sort, limit)
    return await find_sessions(gateway.ledger.store, principal, wanted, cursor, limit)


@get("/v1/sessions/{session:str}", operation_id="read_session")
async def read_session(session: Id, gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the current state of a session in brief."""
    found = await gateway.session(session, principal, fresh=True)
    return await session_row_now(gateway.ledger, found.stream.state)


@post("/v1/sessions/{session:str}/close", status_code=200, operation_id="close_session")
async def close_session(
    session: Id, gateway: TheGateway, principal: ThePrincipal, data: JSONBody[ReasonBody | None] = None
) -> Row:
    """Close a session: its pending requests are cancelled, and new ones are refused."""
    found = await gateway.session(session, principal)
    await found.close(reason=None if data is None else data.reason, actor=principal.actor)
    return await session_row_now(gateway.ledger, found.stream.state)


@get("/v1/sessions/{session:str}/state", operation_id="read_state")
async def read_state(
    session: Id,
    gateway: TheGateway,
    principal: ThePrincipal,
    at: OptionalText = None,
    brief: Annotated[bool, QueryParameter(required=False, description="Only count what was settled")] = False,
    cursor: OptionalText = None,
    limit: Limit = PAGE_COUNT_MAX,
) -> Row:
    """Return pending requests, grants in force, clients and settled requests: now, as of a version, or at an RFC 3339
    time (a date is the end of that day in UTC). Of each list a page, the newest settled requests; `cursor` has older ones.
    """
    found = await gateway.session(session, principal, fresh=True)
    version, time_ms = _moment(at)
    key = found.stream.key
    gateway.history_cache.forget_before(key, found.stream.state.redacted_version)
    moment = await gateway.history_cache.state_at(key, version=version, ms=time_ms)
    as_of_ms = gateway.now_ms if at is None else moment.ms if time_ms is None else time_ms
    standing = approved_at(moment.state, await project_grants(gateway.ledger, moment.state), as_of_ms)
    clients = await clients_of(gateway.ledger, moment.state, is_now=at is None)
    return moment_json(moment, standing, clients, brief=brief, limit=limit, after=cursor)


@get("/v1/sessions/{session:str}/timeline", operation_id="read_timeline")
async def read_timeline(
    session: Id, gateway: TheGateway, principal: ThePrincipal, after: After = 0, limit: Limit = PAGE_COUNT_MAX
) -> Row:
    """Return the session's events as sentences; `version` is the version of the session."""
    state = (await gateway.session(session, principal, fresh=True)).stream.state
    gateway.history_cache.forget_before(StreamKey("session", session), state.redacted_version)
    lines = await timeline_page(gateway.history_cache, session, after, limit)
    last = lines[-1]["version"] if lines else after
    version = max(last, state.version)
    return {"lines": lines, "version": version, "cursor": last if last < version else None}


@get("/v1/sessions/{session:str}/log", operation_id="read_log")
async def read_log(
    session: Id, gateway: TheGateway, principal: ThePrincipal, after: After = 0, limit: Limit = 100
) -> Row:
    """Return the session's events as they stand in the log."""
    found = await gateway.session(session, principal, fresh=True)
    rows = [event.as_json() for event in await gateway.history_cache.page(found.stream.key, after, limit)]
    last = rows[-1]["version"] if rows else after
    return {"events": rows, "cursor": last if last < found.stream.state.version else None}


@get("/v1/sessions/{session:str}/outline", operation_id="read_outline")
async def read_outline(
    session: Id,
    gateway: TheGateway,
    principal: ThePrincipal,
    after: After = 0,
    limit: Limit = 200,
    lanes: Annotated[int, QueryParameter(ge=0, le=LANES_MAX, required=False, description="How many may overlap")] = 8,
    bars: Annotated[int, QueryParameter(ge=0, le=BARS_MAX, required=False, description="How many bars")] = 0,
) -> Row:
    """Return the requests that waited among these events, from asking to end, each in a lane; and the whole session in
    `bars` of equal length, each with its counts of requests that were asked, allowed, refused or expired.
    """
    found = await gateway.session(session, principal, fresh=True)
    outline = await gateway.outlines.of(found.stream.state)
    return {
        "session": session,
        "version": outline.version,
        "waits": waits_row(outline, after, limit, lanes),
        "bars": bars_row(outline, bars) if bars else [],
    }


@get("/v1/sessions/{session:str}/verify", operation_id="verify_session")
async def verify_session(session: Id, gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Check whether any event of the session was changed, lost, inserted or moved, and whether its rules can be read."""
    try:
        await gateway.session(session, principal)
        checked = await _check(gateway, session)
    except DamageError:
        checked = await _check_damaged(gateway, principal, session)
    return {
        "session": session,
        "ok": checked.ok,
        "versions": checked.versions,
        "head": None if checked.head is None else {"id": str(checked.head.position), "hash": checked.head.hash},
        "problems": [{"version": one.version, "kind": one.kind, "text": one.text} for one in checked.problems],
    }


async def _check(gateway: Gateway, session: str) -> Checked:
    return await StreamChecker(gateway.ledger.store, reads_rules=True).check(StreamKey("session", session))


async def _check_damaged(gateway: Gateway, principal: Principal, session: str) -> Checked:
    """Check a stream that cannot be folded; its first entry has its project."""
    checked = await _check(gateway, session)
    if not checked.is_there or not principal.reaches(session, checked.project, None):
        raise UnknownSessionError(f"there is no session `{session}`", session=session)
    return checked


def _moment(at: str | None) -> tuple[int | None, int | None]:
    """Return a version or a time; both None is now."""
    if at is None or not at.isdecimal():
        return None, None if at is None else parse_moment(at)
    if len(at) > VERSION_DIGITS_MAX:
        raise InputError(f"`{at[:20]}` is no version")
    return int(at), None


HANDLERS: list[Any] = [
    open_session,
    list_sessions,
    read_session,
    close_session,
    read_state,
    read_timeline,
    read_log,
    read_outline,
    verify_session,
]
