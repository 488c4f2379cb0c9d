"""Pending requests of all sessions, and the answers of people, to one request and to many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from litestar import get, post
from litestar.params import JSONBody, QueryParameter

from ledger import Session
from ledger.client.results import Result
from ledger.core.errors import InputError, LedgerError
from ledger.core.event_shapes import Signed
from ledger.core.requests import parse_answer
from ledger.core.times import parse_duration
from ledger.session.signed_claims import always_scope
from ledger.session.texts import undelivered_note
from workers.gateway.bodies import RepliesBody, ReplyBody, RequestBody
from workers.gateway.gateway import Gateway
from workers.gateway.granting_reach import require_grantable
from workers.gateway.inboxes import PENDING_COUNT_MAX, PendingFilter, find_most_dangerous, find_pending
from workers.gateway.parameters import OptionalText, TheGateway, ThePrincipal
from workers.gateway.presence import require_own_client
from workers.gateway.principals import Principal
from workers.gateway.rows import Row, result_row

log = logging.getLogger(__name__)

RequestPlace = tuple[str, str]
"""A session and the id of one of its requests."""


async def give_reply(
    gateway: Gateway, principal: Principal, place: RequestPlace, data: ReplyBody, signed: Signed | None
) -> Row:
    """Answer one request, and release what the answer says. Raises what `Session.reply` raises."""
    found, result, note = await _reply(gateway, principal, place, data, signed)
    await _release(gateway, data, [(found, result)])
    return {**result_row(result), "note": note}


async def give_replies(gateway: Gateway, principal: Principal, data: RepliesBody) -> list[Row]:
    """Answer many requests alike; return one result each, in their order: an outcome, or the code of an error.

    Every request is answered with the rights that its own route demands. The answers to one session are decided
    together, and leave as one append or two where nobody else writes meanwhile. One that fails does not keep the others.
    """
    places = [(one.session, one.request_id) for one in data.requests]
    if len(set(places)) < len(places):
        raise InputError("`requests` names a request twice")
    parse_answer(data.reply, data.message)
    given = [asyncio.ensure_future(_one_of_many(gateway, principal, data, one)) for one in data.requests]
    # An answer that was begun is finished, even if the caller has left.
    done = await asyncio.shield(asyncio.gather(*given, return_exceptions=True))
    answered = [(one[0], one[1]) for one in done if not isinstance(one, BaseException)]
    try:
        await _release(gateway, data, answered)
    except LedgerError as error:
        log.warning("an answer to %d requests released nothing else: %s", len(answered), error)
    return [_result(one, outcome) for one, outcome in zip(data.requests, done, strict=True)]


async def _one_of_many(
    gateway: Gateway, principal: Principal, data: RepliesBody, one: RequestBody
) -> tuple[Session, Result, str | None]:
    reply = ReplyBody(
        reply=data.reply,
        message=data.message,
        digest=one.digest,
        expires=data.expires,
        uses=data.uses,
        patterns=data.patterns if one.patterns is None else one.patterns,
    )
    return await _reply(gateway, principal, (one.session, one.request_id), reply, None)


async def _reply(
    gateway: Gateway, principal: Principal, place: RequestPlace, data: ReplyBody, signed: Signed | None
) -> tuple[Session, Result, str | None]:
    """Answer one request; return its session, its result, and a note if the agent will not see the message."""
    session, request_id = place
    found = await gateway.session(session, principal, fresh=data.client_id is not None)
    await require_own_client(found, principal, data.client_id)
    given, message = parse_answer(data.answer, data.message)
    require_grantable(principal, found.stream.state, given)
    # Read this first: the metadata of a settled request is not kept.
    waiting = (await found.state()).pending.get(request_id) if message else None
    result = await found.reply(
        request_id,
        given,
        actor=principal.actor,
        message=message,
        digest=data.digest,
        round=data.round,
        client_id=data.client_id,
        updated_input=data.updated_input,
        signed=signed,
        role=principal.role,
        expires_in_ms=None if data.expires is None else parse_duration(data.expires, "time to live"),
        uses=data.uses,
        patterns=data.patterns,
    )
    return found, result, undelivered_note(None if waiting is None else waiting.metadata, message)


async def _release(gateway: Gateway, data: ReplyBody | RepliesBody, answered: Sequence[tuple[Session, Result]]) -> None:
    """Release what the new grants of each project cover in its other sessions, if the answer says so.

    Nothing records that it is owed: the same answer again, as after a lost confirmation, does it again.
    """
    if data.cascade_always != "project":
        return
    states = [found.stream.state for found, result in answered if result.allowed and result.reply == "always"]
    for project in sorted(
        {one.project for one in states if one.project is not None and always_scope(one) == "project"}
    ):
        await gateway.ledger.waiting.release_in_project(project, everywhere=True)


def _result(one: RequestBody, outcome: tuple[Session, Result, str | None] | BaseException) -> Row:
    place = {"session": one.session, "request_id": one.request_id}
    if isinstance(outcome, tuple):
        _, result, note = outcome
        row = result_row(result, is_described=False)
        row.pop("request")
        return {**row, "note": note}
    if isinstance(outcome, LedgerError):
        body = outcome.as_json()
        return {**body, **place, "outcome": body.get("outcome"), "detail": body.pop("error")}
    log.error("the answer to request %s of session %s failed", one.request_id, one.session, exc_info=outcome)
    return {**place, "outcome": None, "code": "INTERNAL", "detail": "the gateway failed; its log says why"}


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
