"""Asking, waiting and claiming over HTTP: `Session.ask` and `Session.ask_tool`, bounded to the duration of one request.

Rules find the names of the files that a call executes; only the agent's side can hash them. A caller that says
`"operands": "ask"` gets the refusal OPERANDS_WANTED with the list, hashes the files, and asks again with them.
The presence of an asker that waits is renewed as long as its connection is open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from litestar import Response
from litestar.params import HeaderParameter

from ledger import Result, Session
from ledger.client.calls import carry_through
from ledger.client.results import is_held_by, result_of
from ledger.core.errors import FrozenError, InputError, OperandsWantedError, StoreError
from ledger.core.ids import new_request_id
from ledger.core.operands import Operand
from ledger.core.policy import Call
from ledger.core.questions import Runner, claim_id_of
from ledger.core.requests import AskDetails
from ledger.core.times import SECOND_MS, parse_duration
from ledger.log.inboxes import RENEW_SECONDS, forget_asker, see_asker
from ledger.policy.covers import within
from ledger.policy.dialects import dialect_of
from ledger.policy.operands import operands_wanted
from ledger.session.state import SessionState
from ledger.stores.store import Store
from workers.gateway.bodies import AskBody, FinishBody, OperandBody, RunnerBody
from workers.gateway.descriptions import Row, result_row
from workers.gateway.gateway import Gateway
from workers.gateway.own_rules import follow_own_rules, require_folder, require_project_rules
from workers.gateway.principals import ForbiddenError, Principal
from workers.gateway.quotas import size_of
from workers.gateway.worker_pool import rehearse_ask

KEY_CHARS_MAX: Final = 255

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(name="Idempotency-Key", description="The same key again has no further effect", required=False),
]


def derived(principal: Principal, key: str | None, what: str) -> str | None:
    """Return an id of 26 characters for this caller's key, or None without one. Raises InputError."""
    if key is None:
        return None
    if not 0 < len(key) <= KEY_CHARS_MAX or not key.isprintable():
        raise InputError(f"the idempotency key must have 1 to {KEY_CHARS_MAX} characters that can be shown")
    return sha256(f"{principal.token_id or principal.name}\n{what}\n{key}".encode()).hexdigest()[:26]


Said = RunnerBody | str | bool | None


def runner_of(said: Said, principal: Principal, key: str | None, session: str, request_id: str) -> Runner:
    """Return the runner that a caller states, else the one of its `Idempotency-Key`. Raises InputError for neither."""
    if isinstance(said, RunnerBody):
        return Runner(said.name, said.call)
    if isinstance(said, str):
        return Runner(said, request_id)
    made = derived(principal, key, f"claim\n{session}\n{request_id}")
    if made is None:
        raise InputError("give `runner`: the name of what runs the call; or the header Idempotency-Key")
    return Runner(principal.name, made)


def claim_id_in(body: FinishBody, principal: Principal, key: str | None, session: str, request_id: str) -> str:
    """Return the id of the claim whose run has ended. Raises InputError."""
    if body.claim_id is not None and body.runner is not None:
        raise InputError("give `claim_id` or `runner`, not both")
    if body.claim_id is not None:
        return body.claim_id
    return claim_id_of(runner_of(body.runner, principal, key, session, request_id))


def require_own_claim(principal: Principal, state: SessionState, request_id: str) -> None:
    """Raise ForbiddenError where an agent gives back the claim of a request that it did not ask."""
    request = state.find(request_id)
    if principal.role != "agent" or request is None or request.asker.name == principal.name:
        return
    raise ForbiddenError(
        f"request `{request_id}` was asked by `{request.asker.name}`; an agent gives back only claims of its own requests",
        session=state.session_id,
        request_id=request_id,
    )


def given_operands(state: SessionState, body: AskBody, request_id: str) -> tuple[Operand, ...] | None:
    """Return the operands of an ask; None if the caller does not look for files.

    Raises OperandsWantedError if the caller must hash files first; a known request is attached to without that.
    """
    if body.operands != "ask":
        return as_operands(body.operands)
    if state.find(request_id) is None:
        require_none(state, call_of_body(state, body), request_id)
    return None


def require_none(state: SessionState, call: Call, request_id: str) -> None:
    """Raise OperandsWantedError with the files that a call executes, if there are any."""
    wanted = operands_wanted(call, state.home)
    if wanted:
        raise OperandsWantedError(
            f"the call executes {len(wanted)} {'file' if len(wanted) == 1 else 'files'} that must be hashed first: "
            "send them in `operands`",
            request_id=request_id,
            session=state.session_id,
            wanted=[msgspec.to_builtins(one) for one in wanted],
        )


def as_operands(given: list[OperandBody] | None) -> tuple[Operand, ...] | None:
    """Return the operands of a body; their values are checked where the ask is."""
    if given is None:
        return None
    return tuple(Operand(one.path, one.sha256, one.found, one.real, one.size_bytes) for one in given)


def call_of_body(state: SessionState, body: AskBody) -> Call:
    """Return the call that an ask is about, in its folder."""
    tool = body.tool if isinstance(body.tool, str) else body.tool_name
    folder = state.cwd if body.cwd is None else body.cwd
    return Call(body.permission or tool or "", tuple(body.patterns or ()), tool, body.input, folder)


log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
"""The `receive` of ASGI: after the body, it returns when the connection is closed."""


class Attending:
    """One asker's connection. `has_left` says that it was closed while the asker waited."""

    def __init__(self, store: Store, receive: Receive) -> None:
        self.has_left = False
        self._store = store
        self._receive = receive

    @asynccontextmanager
    async def to(self, session: str, request_id: str) -> AsyncIterator[None]:
        """Record that the asker of a request is present, until the block ends or its connection closes."""
        seeing = asyncio.create_task(self._see(session, request_id))
        try:
            yield
        finally:
            seeing.cancel()
            with suppress(asyncio.CancelledError):
                await seeing

    async def settled(self, session: str, request_id: str) -> None:
        """Forget the asker, because it has its answer."""
        with suppress(StoreError):
            await forget_asker(self._store, session, request_id)

    async def _see(self, session: str, request_id: str) -> None:
        leaving = asyncio.create_task(self._left())
        try:
            while not leaving.done():
                await see_asker(self._store, session, request_id)
                await asyncio.wait((leaving,), timeout=RENEW_SECONDS)
        except StoreError as error:
            # Only a hint: the inbox may show that the asker is gone, and no answer depends on it.
            log.warning("who waits for `%s` cannot be recorded: %s", request_id, error.text)
        finally:
            leaving.cancel()

    async def _left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_left = True


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
        await rehearse_ask(gateway.pool, principal.caller, state, body, rules)
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
