"""Claims of calls: taken right before a call runs, ended by its end, given back by a person or the asker."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import post
from litestar.params import JSONBody

from ledger.client.results import result_of
from ledger.core.times import format_time
from workers.gateway import asks
from workers.gateway.asks import as_operands, claim_id_in, require_own_claim, runner_of
from workers.gateway.bodies import ClaimBody, EndClaimsBody, FinishBody, ReasonBody
from workers.gateway.idempotency import IdempotencyKey
from workers.gateway.parameters import Id, TheGateway, ThePrincipal
from workers.gateway.rows import Row, result_row


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


HANDLERS: list[Any] = [claim_ask, finish_ask, release_claim, end_claims]
