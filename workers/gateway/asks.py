"""Asking and waiting over HTTP: `Session.ask` and `Session.ask_tool`, bounded to the duration of one request."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import Final
from urllib.parse import quote

import msgspec
from litestar import Response

from ledger import Result, Session
from ledger.client.calls import carry_through
from ledger.client.results import is_held_by, result_of
from ledger.core.durations import SECOND_MS, parse_duration
from ledger.core.errors import FrozenError, InputError
from ledger.core.ids import new_request_id
from ledger.core.operands import Operand
from ledger.core.requests import AskDetails
from ledger.core.runners import Runner
from ledger.policy.covers import within
from ledger.policy.dialects import dialect_of
from ledger.session.state import SessionState
from workers.gateway.asker_presence import Attending
from workers.gateway.beside import rehearse_ask
from workers.gateway.bodies import AskBody
from workers.gateway.claims import runner_of
from workers.gateway.folders import require_folder
from workers.gateway.gateway import Gateway
from workers.gateway.operands import given_operands
from workers.gateway.own_rules import follow_own_rules, require_project_rules
from workers.gateway.principals import ForbiddenError, Principal
from workers.gateway.quotas import size_of
from workers.gateway.rows import Row, result_row

SETTLE_SECONDS: Final = 2.0
"""Time limit for settling a request whose deadline has passed."""


async def ask(
    gateway: Gateway,
    session: Session,
    principal: Principal,
    body: AskBody,
    *,
    request_id: str | None,
    wait: float,
    attending: Attending,
    key: str | None = None,
) -> tuple[Result, tuple[str, ...]]:
    """Submit a request and wait at most `wait` seconds for its outcome.

    `key` is the caller's idempotency key, which names the runner where the body does not. Return the result and the
    `always` entries that were not offered. Raises what `Session.submit` raises.
    """
    require_own_asks(principal, session.stream.state, body.cwd)
    request_id = new_request_id() if request_id is None else request_id
    runner = _runner(principal, body, key, session.id, request_id)
    follow_own_rules(gateway, session)
    require_project_rules(gateway, session.stream.state, body.project_rules)
    gateway.brought.require(session.stream.state, body.rules_digest)
    size = size_of(body.patterns or (), body.input, body.metadata)
    async with gateway.holdings.asking(principal.caller, session.id, request_id, size) as waiting:
        state = session.stream.state
        rules = await gateway.ledger.streams.rulesets.of(state)
        await rehearse_ask(gateway.beside, principal.caller, state, body, rules)
        operands = given_operands(session.stream.state, body, request_id)
        result, left_out = await _asked(
            gateway,
            session,
            principal,
            body,
            operands,
            request_id=request_id,
            runner=runner,
            wait=wait,
            attending=attending,
        )
        if result.outcome is None:
            waiting.add(result.request_id)
    return result, left_out


async def _asked(
    gateway: Gateway,
    session: Session,
    principal: Principal,
    body: AskBody,
    operands: tuple[Operand, ...] | None,
    *,
    request_id: str,
    runner: Runner | None,
    wait: float,
    attending: Attending,
) -> tuple[Result, tuple[str, ...]]:
    offered = await _offered(session, principal, body, request_id)
    left_out = tuple(one for one in body.always or () if one not in (offered or ()))
    body = msgspec.structs.replace(body, always=offered)
    deadline = asyncio.get_running_loop().time() + wait

    has_waited = False

    async def waited(result: Result) -> Result:
        nonlocal has_waited
        has_waited = True
        left = deadline - asyncio.get_running_loop().time()
        return await _wait(gateway, session, result, left, attending) if left > 0 else result

    async def submit() -> Result:
        first = None if has_waited else runner
        return await _submit(session, principal, body, operands=operands, request_id=request_id, runner=first)

    result = await carry_through(submit, waited, request_id)
    # Asking again attaches to the request, and claims it or finds it reopened. The files that it executes may have
    # changed during the wait, so the caller has to hash them again.
    claim = partial(_submit, session, principal, body, operands=None, request_id=request_id, runner=runner)
    while runner is not None and result.request_id == request_id and result.allowed and not is_held_by(result, runner):
        if attending.has_left:
            # Nobody is told. A claim would keep the next asker from running what was allowed.
            break
        result = await carry_through(claim, waited, request_id)
    return result, left_out


def _runner(principal: Principal, body: AskBody, key: str | None, session: str, request_id: str) -> Runner | None:
    return None if body.claim in (None, False) else runner_of(body.claim, principal, key, session, request_id)


def require_own_asks(principal: Principal, state: SessionState, folder: str | None) -> None:
    """Raise ForbiddenError where an agent that brings no rules asks under another's rules, or from another folder."""
    if principal.brings_rules:
        return
    if state.session_id not in principal.sessions and state.token_id != principal.root_id:
        raise ForbiddenError(
            f"this token brings no rules, so it asks only in sessions that it opened itself, not in `{state.session_id}`",
            session=state.session_id,
        )
    require_folder(principal, state, folder)


async def _offered(session: Session, principal: Principal, body: AskBody, request_id: str) -> list[str] | None:
    """Return the agent's own `always` entries that count.

    For a tool call, an agent that may not bring rules can offer what its dialect offers, or narrower patterns. An
    `always` answer to one command must not allow every command.
    """
    _, tool_name = _tool(body)
    if principal.brings_rules or not body.always or tool_name is None or body.input is None:
        return body.always
    requests = await session.tool_requests(tool_name, body.input, request_id=request_id, cwd=body.cwd, agent=body.agent)
    call, state = requests[-1], session.stream.state
    if state.rules_redacted or body.permission not in (None, call.permission):
        return []
    return list(within(dialect_of(state.language), call.always, body.always))


async def attach(
    gateway: Gateway, session: Session, request_id: str, wait: float, attending: Attending | None
) -> Result:
    """Wait for a request that was asked before and return its state. Raises UnknownRequestError; FrozenError for an asker.

    A waiter settles a request whose deadline has passed, so in that case the outcome is awaited whatever `wait` is.
    """
    try:
        result = await session.result(request_id)
    except FrozenError:
        if attending is not None:
            raise
        return result_of(session.stream.state, request_id)  # a person reads what was decided, and runs nothing
    deadline_ms = result.request.deadline_ms
    is_over = deadline_ms is not None and deadline_ms <= gateway.now_ms
    seconds = max(wait, SETTLE_SECONDS) if is_over else wait
    if result.outcome is None and seconds > 0:
        result = await _wait(gateway, session, result, seconds, attending)
    return result


async def _submit(
    session: Session,
    principal: Principal,
    body: AskBody,
    *,
    operands: tuple[Operand, ...] | None,
    request_id: str,
    runner: Runner | None,
) -> Result:
    tool, tool_name = _tool(body)
    details: AskDetails = {
        "metadata": body.metadata,
        "tool": tool,
        "agent": body.agent,
        "parent": body.parent,
        "cwd": body.cwd,
        "operands": operands,
        "waits": _seconds(body.waits),
    }
    if body.permission is not None:
        if body.patterns is None:
            # The specifications allow a call without patterns; a forgotten member must not have that meaning.
            raise InputError("give `patterns` beside `permission`, as a list; `*` is any use of it")
        return await session.submit(
            body.permission,
            body.patterns,
            always=body.always or (),
            tool_name=tool_name,
            tool_input=body.input,
            request_id=request_id,
            actor=principal.actor,
            claim=runner,
            **details,
        )
    if tool_name is None or body.input is None:
        raise InputError("give `permission` and `patterns`, or `tool_name` and `input`")
    if body.patterns is not None:
        raise InputError("`patterns` go with `permission`; for a tool call the rules say what they are")
    return await session.submit_tool(
        tool_name,
        body.input,
        request_id=request_id,
        actor=principal.actor,
        always=body.always,
        claim=runner,
        **details,
    )


def _seconds(waits: str | None) -> float | None:
    """Return the caller's declared wait; None for `none`, or where it says nothing."""
    ms = None if waits is None else parse_duration(waits, "wait (`waits`)")
    return None if ms is None else ms / SECOND_MS


def _tool(body: AskBody) -> tuple[dict[str, str] | None, str | None]:
    """Return the tool call of the request, and the tool's name. Raises InputError for two different names."""
    if not isinstance(body.tool, str):
        call = None if body.tool is None else {"message_id": body.tool.message_id, "call_id": body.tool.call_id}
        return call, body.tool_name
    if body.tool_name not in (None, body.tool):
        raise InputError(f"`tool` says `{body.tool}` and `tool_name` says `{body.tool_name}`; give one of them")
    return None, body.tool


async def _wait(
    gateway: Gateway, session: Session, result: Result, seconds: float, attending: Attending | None
) -> Result:
    request_id = result.request_id
    async with nullcontext() if attending is None else attending.to(result.session, request_id):
        settled = await gateway.unless_stopping(session.wait(request_id, seconds))
    result = result if settled is None else settled
    if attending is not None and result.outcome is not None:
        await attending.settled(result.session, request_id)
    return result


def answered(
    session: str, result: Result, left_out: tuple[str, ...] = (), *, is_described: bool = True
) -> Response[Row]:
    """Return 200 for a settled request and 202 for a pending one. The header `Location` has the address to poll."""
    place = f"/v1/sessions/{quote(session, safe='')}/asks/{quote(result.request_id, safe='')}"
    status = 202 if result.outcome is None else 200
    row = result_row(result, is_described=is_described) | ({"always_left_out": list(left_out)} if left_out else {})
    return Response(row, status_code=status, headers={"Location": place})
