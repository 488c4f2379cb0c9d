"""Pending requests of all sessions."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter

from workers.gateway.inboxes import PENDING_COUNT_MAX, PendingFilter, find_pending
from workers.gateway.parameters import OptionalText, TheGateway, ThePrincipal
from workers.gateway.rows import Row


@get("/v1/pending", operation_id="list_pending")
async def list_pending(
    gateway: TheGateway,
    principal: ThePrincipal,
    session: OptionalText = None,
    tree: OptionalText = None,
    project: OptionalText = None,
    agent: OptionalText = None,
    gone: Annotated[bool, QueryParameter(required=False)] = False,
    cursor: OptionalText = None,
    limit: Annotated[int, QueryParameter(ge=1, le=PENDING_COUNT_MAX, required=False)] = PENDING_COUNT_MAX,
) -> Row:
    """Return a page of pending requests, nearest deadline first, as of the log now. `tree` is a session with its sub-agents.

    `asker_gone_at` is the time at which an asker over HTTP was last present; `gone` selects such requests.
    """
    wanted = PendingFilter(session=session, tree=tree, project=project, agent=agent, gone=gone)
    return await find_pending(gateway, principal, wanted, cursor, limit)


HANDLERS: list[Any] = [list_pending]
