"""Search for requests, by words and conditions."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter

from workers.gateway.parameters import Limit, OptionalText, TheGateway, ThePrincipal
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


HANDLERS: list[Any] = [search_requests]
