"""Pending requests of all sessions, and one answer to many of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import get, post
from litestar.params import JSONBody, QueryParameter

from ledger.core.errors import InputError
from workers.gateway.bodies import RepliesBody
from workers.gateway.inboxes import PENDING_COUNT_MAX, PendingFilter, find_most_dangerous, find_pending
from workers.gateway.parameters import OptionalText, TheGateway, ThePrincipal
from workers.gateway.replies import give_replies
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
    sort: Annotated[Literal["deadline", "danger"], QueryParameter(required=False)] = "deadline",
    cursor: OptionalText = None,
    limit: Annotated[int, QueryParameter(ge=1, le=PENDING_COUNT_MAX, required=False)] = PENDING_COUNT_MAX,
) -> Row:
    """Return a page of pending requests, nearest deadline first, as of the log now. `tree` is a session with its sub-agents.

    `asker_gone_at` is the time at which an asker over HTTP was last present; `gone` selects such requests. `sort=danger`
    returns the most dangerous ones of those with the nearest deadlines, without further pages.
    """
    wanted = PendingFilter(session=session, tree=tree, project=project, agent=agent, gone=gone)
    if sort == "danger" and cursor is not None:
        raise InputError("`sort=danger` has no further pages; leave `cursor` out, or narrow the search")
    if sort == "danger":
        return await find_most_dangerous(gateway, principal, wanted, limit)
    return await find_pending(gateway, principal, wanted, cursor, limit)


@post("/v1/pending/replies", status_code=200, operation_id="reply_to_many")
async def reply_to_many(data: JSONBody[RepliesBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Answer several requests alike. Return one result each, in their order: an `outcome`, or the `code` of an error.

    An error is that of the request alone; the others count. The same answers again succeed.
    """
    return {"replies": await give_replies(gateway, principal, data)}


HANDLERS: list[Any] = [list_pending, reply_to_many]
