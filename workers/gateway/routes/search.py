"""Search for requests, by words and conditions, and by their id."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter

from workers.gateway.one_request import find_by_id
from workers.gateway.parameters import Id, Limit, OptionalText, TheGateway, ThePrincipal
from workers.gateway.rows import Row
from workers.indexer.query import parse_query

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
