"""Server-sent events: of one session, and of all that the caller may see."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter
from litestar.types import ASGIApp

from ledger.core.ids import check_id
from workers.gateway.events.audience import EventSelection
from workers.gateway.parameters import Id, OptionalText, TheGateway, ThePrincipal

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
    header_id: LastEventId = None,
    query_id: LastId = None,
) -> ASGIApp:
    """Stream the same for all sessions and projects in reach; `tree` is a session with its sub-agents.

    An id that this gateway cannot go on from gets `resync` and a snapshot.
    """
    for name, value in (("session id", session), ("session id", tree), ("project id", project)):
        if value is not None:
            check_id(value, name)
    wanted = EventSelection(session=session, tree=tree, project=project, agent=agent)
    return await gateway.events.of_all(principal, wanted, header_id or query_id or None)


HANDLERS: list[Any] = [session_events, all_events]
