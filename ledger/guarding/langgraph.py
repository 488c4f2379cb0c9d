"""Guarding of LangGraph's tool node, which asks the ledger before it runs a tool. Needs the extra `langgraph`.

ToolNode(tools, **asks_ledger(session))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import Any, TypedDict

from ledger.client.session import Session
from ledger.client.sync import SyncSession
from ledger.core.errors import InputError, RefusalError
from ledger.core.extras import require_extra
from ledger.core.limits import ID_LENGTH_CHARS
from ledger.guarding.context import AskContext

Execute = Callable[[Any], Any]


class Wrappers(TypedDict):
    """Arguments of `ToolNode`: for `invoke` and for `ainvoke`."""

    wrap_tool_call: Callable[[Any, Execute], Any]
    awrap_tool_call: Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]


def asks_ledger(
    session: Session | SyncSession,
    *,
    agent: str | None = None,
    parent: str | None = None,
    cwd: str | None = None,
    stops: bool = True,
) -> Wrappers:
    """Return the arguments of `ToolNode` with which each tool call asks in this session and waits for the answer.

    A call runs with the allowed input, including a person's changes. A refused call becomes a tool message with status
    `error` for the model; with `stops`, a refusal after which the agent should stop is raised as its RefusalError and
    ends the run, unless the node handles that error. A graph that is resumed from a checkpoint attaches to the requests
    of its calls. Each call is claimed right before it runs: one that a crashed run may have run is refused, unless the
    graph is resumed with the same `run_id` in its config. Raises MissingExtraError without LangGraph, and what `Session.ask_tool` raises.
    """
    require_extra("langgraph")

    def asking(request: Any) -> tuple[AskContext, str, dict[str, Any]]:
        call = request.tool_call
        request_id, tool = _named(request)
        context = AskContext(
            session, request_id=request_id, runner=_run_of(request), tool=tool, agent=agent, parent=parent, cwd=cwd
        )
        return context, call["name"], call["args"]

    def wrap(request: Any, execute: Execute) -> Any:
        one, name, args = asking(request)
        with ExitStack() as stack:
            try:
                permit = stack.enter_context(one.permit_blocking(name, args))
            except RefusalError as error:
                return _refusal_message(request, error, stops=stops)
            return execute(_corrected(request, permit.result.updated_input))

    async def awrap(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        one, name, args = asking(request)
        async with AsyncExitStack() as stack:
            try:
                permit = await stack.enter_async_context(one.permit(name, args))
            except RefusalError as error:
                return _refusal_message(request, error, stops=stops)
            return await execute(_corrected(request, permit.result.updated_input))

    return {"wrap_tool_call": wrap, "awrap_tool_call": awrap}


def _named(request: Any) -> tuple[str | None, dict[str, str] | None]:
    """Return the request id of a call and its tool reference; None for a message without an id.

    Some models number calls from 0 in each message, so a call's id is only unique within its message.
    """
    call_id = request.tool_call["id"]
    message_id = _message_id(request.state, call_id)
    if not call_id or not message_id:
        return None, None
    request_id = f"{message_id}.{call_id}"
    if len(request_id) > ID_LENGTH_CHARS:
        raise InputError(
            f"the message and call ids have {len(request_id)} characters; at most {ID_LENGTH_CHARS} are accepted"
        )
    return request_id, {"message_id": message_id, "call_id": call_id}


def _run_of(request: Any) -> str | None:
    """Return the runner's name for a graph that was invoked with a `run_id`; None without one."""
    config = getattr(getattr(request, "runtime", None), "config", None)
    run_id = config.get("run_id") if isinstance(config, Mapping) else None
    return None if run_id is None else f"langgraph run {run_id}"


def _message_id(state: Any, call_id: str | None) -> str | None:
    """Return the id of the newest message with the call."""
    messages = state if isinstance(state, list) else _member(state, "messages")
    for message in reversed(messages or ()):
        if any(call.get("id") == call_id for call in getattr(message, "tool_calls", None) or ()):
            found: str | None = message.id
            return found
    return None


def _member(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, dict) else getattr(state, name, None)


def _corrected(request: Any, updated: Any) -> Any:
    if updated is None:
        return request
    return request.override(tool_call={**request.tool_call, "args": dict(updated)})


def _refusal_message(request: Any, error: RefusalError, *, stops: bool) -> Any:
    if stops and error.agent == "stop":
        raise error
    from langchain_core.messages import ToolMessage  # noqa: PLC0415 - an extra, and slow to import

    call = request.tool_call
    return ToolMessage(content=error.text, name=call["name"], tool_call_id=call["id"], status="error")
