"""The decorator `@guarded`, for functions that only run when the ledger allows the call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from ledger.client.session import Session
from ledger.client.sync import SyncSession
from ledger.core.errors import InputError
from ledger.core.requests import ToolAskOptions, check_name
from ledger.guarding.arguments import Arguments
from ledger.guarding.context import AskContext, current_asking

P = ParamSpec("P")
R = TypeVar("R")


def guarded(
    tool_name: str,
    *,
    session: Session | SyncSession | None = None,
    names: Mapping[str, str] | None = None,
    leave_out: Iterable[str] = (),
    always: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Ask about each tool call before the function runs, wait without a limit, and claim it: it runs once.

    The tool's input is the function's arguments by name; `names` maps parameters to the member names in the dialect's
    rules (`{"cmd": "command"}`), `leave_out` lists parameters that are no input. The session is the argument, else that
    of `with asking(session)`. If a person changed the input, the function is called with the changed one.
    `always` are the offered grants in place of the dialect's.
    The end is recorded with the function's error, if it raises one.

    A call raises what `Session.ask_tool` raises, and the function has not run then (AlreadyClaimedError: another process
    runs this call, or has run it); InputError also without a session,
    for an argument without a JSON form, and for a changed input that does not fit. Decorating a generator raises
    InputError.
    """
    check_name(tool_name, "tool name")
    fixed = None if session is None else AskContext(session)
    more: ToolAskOptions = {"metadata": dict(metadata or {})}
    if always is not None:
        more["always"] = tuple(always)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InputError(f"`{function.__name__}` is a generator and would run in parts; guard a function")
        arguments = Arguments(function, names or {}, leave_out)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def guarded_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                bound = arguments.bind(args, kwargs)
                asked = arguments.input_of(bound)
                async with (fixed or current_asking(tool_name)).permit(tool_name, asked, **more) as permit:
                    run = arguments.to_run(bound, asked, permit.result.updated_input)
                    return await function(*run.args, **run.kwargs)

            return guarded_coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def guarded_function(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = arguments.bind(args, kwargs)
            asked = arguments.input_of(bound)
            with (fixed or current_asking(tool_name)).permit_blocking(tool_name, asked, **more) as permit:
                run = arguments.to_run(bound, asked, permit.result.updated_input)
                return function(*run.args, **run.kwargs)

        return guarded_function

    return decorate
