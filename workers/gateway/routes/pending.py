"""Pending requests of all sessions, and the answers of people, to one request and to many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Annotated, Literal

from litestar import get, post
from litestar.params import JSONBody, QueryParameter

from ledger import Session
from ledger.client.results import Pending, Result, result_of
from ledger.core.errors import InputError, LedgerError
from ledger.core.event_shapes import Signed
from ledger.core.requests import parse_answer
from ledger.core.times import format_time_or_none, parse_duration
from ledger.log.inboxes import gone_anywhere
from ledger.session.signed_claims import always_scope
from ledger.session.state import Request, SessionState
from ledger.session.texts import undelivered_note
from ledger.stores.port import StreamKey
from workers.gateway.access import require_grantable
from workers.gateway.bodies import RepliesBody, ReplyBody, RequestBody
from workers.gateway.descriptions import Row, answering_facts, described, result_row
from workers.gateway.events.hints import lineage_of
from workers.gateway.gateway import Gateway, Id, Limit, OptionalText, TheGateway, ThePrincipal
from workers.gateway.inboxes import (
    PENDING_COUNT_MAX,
    PendingFilter,
    PendingForm,
    find_most_dangerous,
    find_one,
    find_pending,
)
from workers.gateway.presence import require_own_client
from workers.gateway.principals import Principal
from workers.indexer.reader import parse_query

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
    request_id: Annotated[str | None, QueryParameter(name="request", required=False)] = None,
    tree: OptionalText = None,
    project: OptionalText = None,
    agent: OptionalText = None,
    gone: Annotated[bool, QueryParameter(required=False)] = False,
    sort: Annotated[Literal["deadline", "danger"], QueryParameter(required=False)] = "deadline",
    form: Annotated[PendingForm, QueryParameter(required=False)] = "card",
    cursor: OptionalText = None,
    limit: Annotated[int, QueryParameter(ge=1, le=PENDING_COUNT_MAX, required=False)] = PENDING_COUNT_MAX,
) -> Row:
    """Return a page of pending requests, nearest deadline first, as of the log now. `tree` is a session with its sub-agents.

    `asker_gone_at` is the time at which an asker over HTTP was last present; `gone` selects such requests. `sort=danger`
    returns the most dangerous ones of those with the nearest deadlines, without further pages. `request` with `session` is
    one request: where it does not wait any more, `settled` has its outcome. `form=row` returns what one line shows of each.
    """
    if request_id is not None:
        if session is None:
            raise InputError("`request` names a request of a session; name its `session`, too")
        return await find_one(gateway, principal, session, request_id, form)
    wanted = PendingFilter(session=session, tree=tree, project=project, agent=agent, gone=gone, form=form)
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
            "lineage": await lineage_of(gateway.ledger.streams, state, principal.reaches_state),
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
