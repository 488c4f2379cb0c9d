"""Requests: asked, awaited, answered, withdrawn; and the report of the call that ran."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec
from litestar import Request, Response, get, post
from litestar.params import JSONBody

from ledger.client.results import result_of
from ledger.client.spans import within_trace
from ledger.client.why import Answerer, PastRequests, WhyAsked, advice_asked, explain_request
from ledger.core.errors import InputError, LedgerError, StoreError
from ledger.core.requests import parse_answer
from ledger.core.times import DAY_MS, format_time
from ledger.session.state import SessionState
from projections.asked_before import asked_before
from workers.gateway import asks
from workers.gateway.asks import (
    Attending,
    IdempotencyKey,
    as_operands,
    claim_id_in,
    derived,
    require_own_claim,
    runner_of,
)
from workers.gateway.bodies import (
    AnsweredBody,
    AskBody,
    CancelBody,
    ClaimBody,
    EndClaimsBody,
    ExtendBody,
    FinishBody,
    ReasonBody,
    ReplyBody,
    ToolFinishedBody,
)
from workers.gateway.descriptions import Row, result_row
from workers.gateway.gateway import Gateway, Id, TheGateway, ThePrincipal, Wait
from workers.gateway.metrics import trace_of
from workers.gateway.presence import require_own_client
from workers.gateway.principals import ForbiddenError, Principal
from workers.gateway.routes.passkeys import signed_at
from workers.gateway.routes.pending import give_reply
from workers.presentation.why import LOOK_BACK_DAYS, LOOKED_AT_COUNT, why_json

log = logging.getLogger(__name__)

RULE_SECONDS: Final = 2.0
"""Processor time for the search of a rule, spent beside the loop."""


async def why_row(gateway: Gateway, principal: Principal, session: str, request_id: str) -> Row:
    """Return the reason for a request within reach. Raises what `explain_request` raises."""
    found = await gateway.session(session, principal)
    state = await found.state()
    by = Answerer(principal.actor, principal.role)
    async with gateway.judging_the_past:
        past = await _past(gateway, principal, state)
        why = await explain_request(gateway.ledger, found, request_id, past, by)
    for choice in why.choices:
        for example in choice.reached.examples:
            gateway.reads.look(principal, example.request.session)
    row = why_json(why, await _rule(gateway, principal, why))
    if state.project is None or not principal.reaches_project(state.project):
        row["scope"] = "session"
    return row


async def _past(gateway: Gateway, principal: Principal, state: SessionState) -> PastRequests:
    """Return past requests of the session's project, or of the session where it has none."""
    since_ms = gateway.now_ms - LOOK_BACK_DAYS * DAY_MS
    found = await gateway.search.asked_before(principal, state, since_ms=since_ms, count=LOOKED_AT_COUNT)
    if found is not None:
        return found
    ledger = gateway.ledger
    return await asked_before(
        ledger.store, ledger.streams, state, since_ms=since_ms, count=LOOKED_AT_COUNT, may_see=principal.reaches
    )


async def _rule(gateway: Gateway, principal: Principal, why: WhyAsked) -> Row | None:
    """Return the smallest rule for a file; None where there is none, or the search for it takes too long."""
    asked = advice_asked(why)
    if asked is None:
        return None
    try:
        found: Row | None = await gateway.pool.run(principal.caller, "advise", asked, seconds=RULE_SECONDS)
    except StoreError:
        raise
    except LedgerError as error:
        log.debug("no rule for request %s: %s", why.pending.request.request_id, error)
        return None
    return found


@post("/v1/sessions/{session:str}/asks", status_code=200, operation_id="ask")
async def ask(
    session: Id,
    data: JSONBody[AskBody],
    gateway: TheGateway,
    principal: ThePrincipal,
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    wait: Wait = 0,
) -> Response[Row]:
    """Ask. Return 200 when settled, 202 while a person has to answer; the same `request_id` again attaches to it."""
    found = await gateway.session(session, principal)
    made = derived(principal, idempotency_key, f"ask\n{session}")
    request_id = data.request_id or (f"per_{made}" if made else None)
    attending = Attending(gateway.ledger.store, request.receive)
    with within_trace(trace_of(data.trace, request)):
        result, left_out = await asks.ask(
            gateway, found, principal, data, request_id=request_id, wait=wait, attending=attending, key=idempotency_key
        )
    return asks.answered(session, result, left_out, is_described=False)


@get("/v1/sessions/{session:str}/asks/{request_id:str}", operation_id="read_ask")
async def read_ask(
    session: Id,
    request_id: Id,
    gateway: TheGateway,
    principal: ThePrincipal,
    request: Request[Any, Any, Any],
    wait: Wait = 0,
) -> Response[Row]:
    """Attach to a request by its id: return its state, or its outcome within `wait` seconds."""
    found = await gateway.session(session, principal)
    # Other roles that look at a request are not its asker.
    attending = Attending(gateway.ledger.store, request.receive) if principal.role == "agent" else None
    return asks.answered(session, await asks.attach(gateway, found, request_id, wait, attending))


@get("/v1/sessions/{session:str}/asks/{request_id:str}/why", operation_id="explain_ask")
async def explain_ask(session: Id, request_id: Id, gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the rule that asks, and the grants that would have answered the request, the smallest first.

    Each has the number of past requests of the project that it would have answered, too, with examples.
    """
    return await why_row(gateway, principal, session, request_id)


@post("/v1/sessions/{session:str}/asks/{request_id:str}/reply", status_code=200, operation_id="reply")
async def reply(
    session: Id,
    request_id: Id,
    data: JSONBody[ReplyBody],
    gateway: TheGateway,
    principal: ThePrincipal,
    request: Request[Any, Any, Any],
) -> Row:
    """Answer a request. The same answer again succeeds; another answer is refused with the name of the first.

    If the agent will not see the message of the answer, `note` says so.
    """
    signed = signed_at(data.signed, request, gateway)
    return await give_reply(gateway, principal, (session, request_id), data, signed)


@post("/v1/sessions/{session:str}/asks/{request_id:str}/extend", status_code=200, operation_id="extend")
async def extend(
    session: Id, request_id: Id, data: JSONBody[ExtendBody], gateway: TheGateway, principal: ThePrincipal
) -> Row:
    """Give an attended request more time, for a person who thinks about it. Asked again, it gives no more.

    Never beyond the wait that the asker declared, and never for an agent: whoever may answer may extend.
    """
    found = await gateway.session(session, principal, fresh=data.client_id is not None)
    await require_own_client(found, principal, data.client_id)
    if data.reason == "by_hand" and data.deadline is None:
        raise InputError("give `deadline` with `by_hand`: the deadline as it was shown, so that a repeat adds nothing")
    result = await found.extend(
        request_id,
        data.reason,
        seen=data.deadline,
        actor=principal.actor,
        client_id=data.client_id,
        role=principal.role,
    )
    return result_row(result)


@post("/v1/sessions/{session:str}/asks/{request_id:str}/answered", status_code=200, operation_id="record_answer")
async def record_answer(
    session: Id, request_id: Id, data: JSONBody[AnsweredBody], gateway: TheGateway, principal: ThePrincipal
) -> Row:
    """Record a person's answer at the agent's own prompt. Only for tokens that may bring rules.

    A token that may choose an agent's rules gains nothing by it; any other agent would approve itself. The answer is
    marked everywhere as reported, not observed, and an `always` is kept for the session only.
    """
    found = await gateway.session(session, principal)
    if not principal.brings_rules:
        raise ForbiddenError(
            "this token may not record answers given elsewhere; cancel the request instead, "
            "or make a token with `token create --brings-rules`"
        )
    reply, message = parse_answer(data.reply, data.message)
    result = await found.reply(
        request_id,
        reply,
        actor=principal.teller,
        message=message,
        updated_input=data.updated_input,
        told=data.told,
    )
    return result_row(result)


@post("/v1/sessions/{session:str}/asks/{request_id:str}/cancel", status_code=200, operation_id="cancel_ask")
async def cancel_ask(
    session: Id,
    request_id: Id,
    gateway: TheGateway,
    principal: ThePrincipal,
    data: JSONBody[CancelBody | None] = None,
) -> Row:
    """Withdraw a pending request."""
    found = await gateway.session(session, principal)
    said = data or CancelBody()
    return result_row(await found.cancel(request_id, cause=said.cause, reason=said.reason, actor=principal.actor))


@post("/v1/sessions/{session:str}/tools-finished", status_code=204, operation_id="note_tool_finished")
async def note_tool_finished(
    session: Id,
    data: JSONBody[ToolFinishedBody],
    gateway: TheGateway,
    principal: ThePrincipal,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Record the call that ran, and whether it was the call that had been asked."""
    found = await gateway.session(session, principal)
    await found.note_tool_finished(
        data.request_id,
        call_id=data.call_id,
        ok=data.ok,
        tool_input=data.input,
        title=data.title,
        output=data.output,
        key=derived(principal, idempotency_key, f"tool finished\n{session}"),
        actor=principal.actor,
    )


@post("/v1/sessions/{session:str}/asks/{request_id:str}/claim", status_code=200, operation_id="claim_ask")
async def claim_ask(
    session: Id,
    request_id: Id,
    gateway: TheGateway,
    principal: ThePrincipal,
    data: JSONBody[ClaimBody | None] = None,
    idempotency_key: IdempotencyKey = None,
) -> Row:
    """Take the right to run an allowed call, once; everything is judged again. `input` is the input that may run.

    The same runner again succeeds; another one is refused. What no longer holds is reopened, and refused with 409.
    """
    found = await gateway.session(session, principal)
    asks.require_own_asks(principal, found.stream.state, None)
    said = data or ClaimBody()
    runner = runner_of(said.runner, principal, idempotency_key, session, request_id)
    operands = None if said.operands == "ask" else as_operands(said.operands)
    claim = await found.claim(request_id, runner=runner, actor=principal.actor, operands=operands)
    row: Row = msgspec.to_builtins(claim)
    at_ms = row.pop("at_ms")
    return {**row, "at": format_time(at_ms)}


@post("/v1/sessions/{session:str}/asks/{request_id:str}/finish", status_code=200, operation_id="finish_ask")
async def finish_ask(
    session: Id,
    request_id: Id,
    data: JSONBody[FinishBody],
    gateway: TheGateway,
    principal: ThePrincipal,
    idempotency_key: IdempotencyKey = None,
) -> Row:
    """Record the end of a claimed call's run: whether it succeeded, and what it put out."""
    found = await gateway.session(session, principal)
    asks.require_own_asks(principal, found.stream.state, None)
    claim_id = claim_id_in(data, principal, idempotency_key, session, request_id)
    await found.finish(
        request_id,
        claim_id,
        ok=data.ok,
        output=data.output,
        title=data.title,
        tool_input=data.input,
        actor=principal.actor,
    )
    return result_row(result_of(await found.state(), request_id), is_described=False)


@post("/v1/sessions/{session:str}/asks/{request_id:str}/release", status_code=200, operation_id="release_claim")
async def release_claim(
    session: Id,
    request_id: Id,
    gateway: TheGateway,
    principal: ThePrincipal,
    data: JSONBody[ReasonBody | None] = None,
) -> Row:
    """Give back the claim of a call whose runner has died, so that it may be claimed again. It may have run."""
    found = await gateway.session(session, principal)
    require_own_claim(principal, await found.state(), request_id)
    await found.release_claim(request_id, reason=None if data is None else data.reason, actor=principal.actor)
    return result_row(result_of(await found.state(), request_id), is_described=False)


@post("/v1/sessions/{session:str}/claims-ended", status_code=200, operation_id="end_claims")
async def end_claims(session: Id, data: JSONBody[EndClaimsBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """End the open claims of a runner that has ended without saying how its calls ended. None of them runs again."""
    found = await gateway.session(session, principal)
    asks.require_own_asks(principal, found.stream.state, None)
    return {"ended": await found.end_claims(runner=data.runner, actor=principal.actor)}
