"""Sessions: open, read, read the past, close; and the search for past ones.

The search reads pages of the views, a moment behind the log; what is read for one answer does not grow with the
sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Final, Literal

import msgspec
from litestar import Response, get, post, put
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, JSONBody, QueryParameter
from litestar.types import ASGIApp

from ledger.core.errors import DamageError, InputError, UnknownSessionError
from ledger.core.events import Outcome
from ledger.core.ids import check_id
from ledger.core.times import parse_moment, parse_time
from ledger.log.places import scope_of
from ledger.stores.port import StreamKey
from ledger.stores.store import Store
from projections import queries
from projections.sentences import timeline_page
from projections.sessions import Latest
from workers.gateway.bodies import OpenSession, ReasonBody
from workers.gateway.descriptions import Row, last_calls, session_row_now
from workers.gateway.events.hints import EventSelection
from workers.gateway.gateway import After, Gateway, Id, Limit, OptionalText, TheGateway, ThePrincipal
from workers.gateway.inboxes import scopes_within
from workers.gateway.outline import BARS_MAX, LANES_MAX, bars_row, waits_row
from workers.gateway.principals import Principal
from workers.gateway.session_opening import open_session as open_by_rules
from workers.gateway.settings import PAGE_COUNT_MAX
from workers.presentation.moments import approved_at, clients_of, moment_json, project_grants
from workers.upkeep.stream_checks import Checked, StreamChecker

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


VERSION_DIGITS_MAX = 18

CALLS_MAX: Final = 10
"""Last calls of a session in its row."""


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
async def read_session(
    session: Id,
    gateway: TheGateway,
    principal: ThePrincipal,
    calls: Annotated[int, QueryParameter(ge=0, le=CALLS_MAX, required=False, description="How many last calls")] = 0,
) -> Row:
    """Return the current state of a session in brief; people get the `last_calls` too, where `calls` says how many."""
    state = (await gateway.session(session, principal, fresh=True)).stream.state
    last = {"last_calls": last_calls(state, calls)} if calls and principal.role != "agent" else {}
    return {**await session_row_now(gateway.ledger, state), **last}


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


LastEventId = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", required=False, description="Continue after the event with this id"),
]
LastId = Annotated[
    str | None,
    QueryParameter(name="last_event_id", required=False, description="The same, where a client cannot send it"),
]
STREAM = {
    200: ResponseSpec(str, media_type="text/event-stream", description="Events without end", generate_examples=False)
}


@get("/v1/sessions/{session:str}/events", operation_id="session_events", responses=STREAM)
async def session_events(
    session: Id, gateway: TheGateway, principal: ThePrincipal, header_id: LastEventId = None, query_id: LastId = None
) -> ASGIApp:
    """Stream the pending requests (`is_replay`, then `snapshot.end`) or those after `Last-Event-ID`, then new events."""
    await gateway.session(session, principal)
    return await gateway.events.of_session(session, principal, header_id or query_id or None)


@get("/v1/events", operation_id="all_events", responses=STREAM)
async def all_events(
    gateway: TheGateway,
    principal: ThePrincipal,
    session: OptionalText = None,
    tree: OptionalText = None,
    project: OptionalText = None,
    agent: OptionalText = None,
) -> ASGIApp:
    """Stream which requests of which sessions in reach changed, from now on; `tree` is a session with its sub-agents.

    After `stream.open`, and after `resync`, read what you show: every later change is told.
    """
    for name, value in (("session id", session), ("session id", tree), ("project id", project)):
        if value is not None:
            check_id(value, name)
    wanted = EventSelection(session=session, tree=tree, project=project, agent=agent)
    return await gateway.events.of_all(principal, wanted)
