"""Search for requests, by words and conditions, and by their id."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter

from ledger.client.results import Pending, result_of
from ledger.core.errors import LedgerError
from ledger.core.times import format_time_or_none
from ledger.log.inboxes import gone_anywhere
from ledger.session.state import Request, SessionState
from ledger.stores.port import StreamKey
from workers.gateway.descriptions import described
from workers.gateway.gateway import Gateway
from workers.gateway.inboxes import lineage
from workers.gateway.parameters import Id, Limit, OptionalText, TheGateway, ThePrincipal
from workers.gateway.principals import Principal
from workers.gateway.rows import Row, answering_facts, result_row
from workers.indexer.reader import parse_query


async def find_by_id(gateway: Gateway, principal: Principal, request_id: str, session: str | None) -> Row:
    """Return the requests of this id in the sessions within reach: none, one, or several under the same id.

    Sessions that cannot be read, and those out of reach, are left out alike.
    """
    found = [
        await _row(gateway, principal, state, request_id)
        for state in await _states(gateway, principal, request_id, session)
    ]
    return {
        "request_id": request_id,
        "requests": sorted(found, key=lambda row: (row["outcome"] is not None, row["session"])),
    }


async def _states(gateway: Gateway, principal: Principal, request_id: str, session: str | None) -> list[SessionState]:
    if session is None:
        states = (await gateway.ledger.lookups.of_request(request_id)).rows
    else:
        try:
            states = [(await gateway.session(session, principal, fresh=True)).stream.state]
        except LedgerError as error:
            if error.code not in ("INPUT", "UNKNOWN_SESSION"):
                raise
            states = []
    known = [one for one in states if one.find(request_id) is not None and principal.reaches_state(one)]
    for one in known:
        gateway.reads.look(principal, one.session_id)
    return known


async def _row(gateway: Gateway, principal: Principal, state: SessionState, request_id: str) -> Row:
    result = result_of(state, request_id)
    asked = result.request if result.outcome is None else await _as_asked(gateway, state, result.request)
    gone = await gone_anywhere(gateway.ledger.store, [state.session_id]) if result.outcome is None else {}
    held = None if result.settled is None else result.settled.claim
    return {
        **result_row(result, is_described=False),
        "request": {
            **described(Pending(session=state.session_id, request=asked)),
            "asker_gone_at": format_time_or_none(gone.get((state.session_id, request_id))),
            "project": state.project,
            "lineage": await lineage(gateway, principal, state),
            **answering_facts(state),
        },
        "ran": result.settled is not None and (result.settled.finished or result.request.ran),
        "claim_ended_at": None if held is None else format_time_or_none(held.ended_ms),
    }


async def _as_asked(gateway: Gateway, state: SessionState, request: Request) -> Request:
    """Return a settled request with all that was shown when it was asked last, which only the log has."""
    key = StreamKey("session", state.session_id)
    gateway.history_cache.forget_before(key, state.redacted_version)
    version = request.reopened_versions[-1] if request.reopened_versions else request.version
    moment = await gateway.history_cache.state_at(key, version=version)
    whole: Request | None = moment.state.pending.get(request.request_id)
    return request if whole is None else whole


PAGE_COUNT = 50


@get("/v1/search", operation_id="search_requests")
async def search_requests(
    gateway: TheGateway,
    principal: ThePrincipal,
    q: Annotated[str, QueryParameter(required=False, description="Words, and conditions as `by:NAME`")] = "",
    cursor: OptionalText = None,
    limit: Limit = PAGE_COUNT,
) -> Row:
    """Return requests that match all words and conditions, the newest first, from the index of an indexer.

    Each has its decision, its reason, and the session and version of that moment. `lag` is what the index lacks.
    A page may be short, or empty, with a `cursor`.
    """
    query = parse_query(q, now_ms=gateway.now_ms, cursor=cursor)
    found = await gateway.search.find(principal, query, limit)
    for row in found["requests"]:
        gateway.reads.look(principal, row["session"])
    return found


@get("/v1/requests/{request_id:str}", operation_id="find_request")
async def find_request(
    request_id: Id, gateway: TheGateway, principal: ThePrincipal, session: OptionalText = None
) -> Row:
    """Return the requests with this id within reach, each with its outcome and the `request` as it was asked.

    Mostly one; the same id may be known in several sessions, of which `session` selects one.
    """
    return await find_by_id(gateway, principal, request_id, session)


HANDLERS: list[Any] = [search_requests, find_request]
