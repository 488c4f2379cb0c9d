"""The context in which a guarded tool asks: session and call, set by the code around the tool."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar, Unpack

from ledger.client.claims import Permit, PermitBlock
from ledger.client.machine import default_actor_name
from ledger.client.session import Session
from ledger.client.sync import SyncPermitBlock, SyncSession
from ledger.core.errors import InputError, LedgerError, StoreError
from ledger.core.ids import check_id, new_request_id
from ledger.core.questions import Runner
from ledger.core.requests import AskDetails, ToolAskOptions, check_name

R = TypeVar("R")

log = logging.getLogger(__name__)

WITHDRAWING_SECONDS: Final = 3.0
"""The timeout of the withdrawal of a request without waiters."""

LOOKING_SECONDS: Final = 1.0
"""The interval at which a waiting thread checks that the event loop still runs."""

_NAME_CHARS: Final = 200

_current: ContextVar[AskContext | None] = ContextVar("permission_ledger_asking", default=None)


class AskContext:
    """The session of asks, and their arguments besides tool and input.

    `request_id`, or `tool`, is that of one call: the first tool that asks gets it, so that its answer never serves a
    second call. Without a request id each call gets a new one, and is withdrawn when its task is cancelled, because no
    retry could attach to it.

    Each call is claimed right before it runs. `runner` names the workflow run in which it does: the same run claims its
    call again after a crash. Without it the runner is this context alone, so that a call which a crashed process may
    have run is refused to another one.
    """

    def __init__(
        self,
        session: Session | SyncSession,
        *,
        request_id: str | None = None,
        runner: str | None = None,
        **details: Unpack[AskDetails],
    ) -> None:
        """Raise InputError for a malformed request id or runner."""
        self.session = session
        # Without a name, one that nobody else has.
        unique = f"{default_actor_name()[:_NAME_CHARS]}#{os.urandom(4).hex()}"
        self._runner = unique if runner is None else check_name(runner, "runner")
        self._one_call = [] if request_id is None else [check_id(request_id, "request id")]
        self._details = details
        self._loop = _running_loop()

    def _named(self) -> tuple[str | None, AskDetails]:
        """Return the arguments of an ask; only the first caller gets the request id and the tool."""
        # Both are taken atomically, so that of two threads only one gets them.
        tool = self._details.pop("tool", None)
        with suppress(IndexError):
            return self._one_call.pop(), {**self._details, "tool": tool}
        return None, {**self._details, "tool": tool}

    @asynccontextmanager
    async def permit(
        self, tool_name: str, tool_input: Mapping[str, Any], **more: Unpack[ToolAskOptions]
    ) -> AsyncIterator[Permit]:
        """As `Session.permit_tool`. Raises the same errors, and InputError for a blocking session."""
        block, permit = await self._entered(tool_name, tool_input, more)
        try:
            yield permit
        except BaseException as error:
            await block.__aexit__(type(error), error, error.__traceback__)
            raise
        await block.__aexit__(None, None, None)

    @contextmanager
    def permit_blocking(
        self, tool_name: str, tool_input: Mapping[str, Any], **more: Unpack[ToolAskOptions]
    ) -> Iterator[Permit]:
        """As `permit`, for a plain function: through a SyncSession, or from a thread besides the session's loop."""
        session = self.session
        if isinstance(session, SyncSession):
            block, permit = self._entered_blocking(session, tool_name, tool_input, more)
            leave: Callable[..., None] = block.__exit__
        else:
            inner, permit = self._in_loop(tool_name, self._entered(tool_name, tool_input, more))
            leave = partial(self._left_in_loop, tool_name, inner)
        try:
            yield permit
        except BaseException as error:
            _leave(leave, tool_name, type(error), error, error.__traceback__)
            raise
        _leave(leave, tool_name, None, None, None)

    def _left_in_loop(self, tool_name: str, block: PermitBlock, *exc: Any) -> None:
        self._in_loop(tool_name, block.__aexit__(*exc))

    async def _entered(
        self, tool_name: str, tool_input: Mapping[str, Any], more: ToolAskOptions
    ) -> tuple[PermitBlock, Permit]:
        session = self.session
        if isinstance(session, SyncSession):
            raise InputError(f"the tool `{tool_name}` is asynchronous and needs a session of `Ledger.connect`")
        named, said = self._named()
        request_id = named or new_request_id()
        options = self._options(request_id, said, more)
        block = session.permit_tool(tool_name, tool_input, request_id=request_id, **options)
        try:
            return block, await block.__aenter__()
        except asyncio.CancelledError:
            if named is None:
                await _withdraw(session, request_id)
            raise

    def _entered_blocking(
        self, session: SyncSession, tool_name: str, tool_input: Mapping[str, Any], more: ToolAskOptions
    ) -> tuple[SyncPermitBlock, Permit]:
        named, said = self._named()
        request_id = named or new_request_id()
        options = self._options(request_id, said, more)
        block = session.permit_tool(tool_name, tool_input, request_id=request_id, **options)
        try:
            return block, block.__enter__()
        except KeyboardInterrupt:
            if named is None:
                _withdraw_blocking(session, request_id)
            raise

    def _options(self, request_id: str, said: AskDetails, more: ToolAskOptions) -> ToolAskOptions:
        return {**_joined(said, more), "claim": Runner(self._runner, request_id)}

    def _in_loop(self, tool_name: str, asked: Coroutine[Any, Any, R]) -> R:
        loop = self._loop
        if loop is None or not loop.is_running() or loop is _running_loop():
            asked.close()
            raise InputError(
                f"the tool `{tool_name}` would block the event loop that its answer comes through; make it `async def`, "
                "run it in a thread, or give it a session of `SyncLedger`"
            )
        future = asyncio.run_coroutine_threadsafe(asked, loop)
        try:
            while not concurrent.futures.wait([future], LOOKING_SECONDS).done and loop.is_running():
                pass
        except BaseException:
            # Interrupted: without this the ask would go on waiting.
            future.cancel()
            raise
        if not future.done() or future.cancelled():
            raise StoreError(f"the event loop ended while the tool `{tool_name}` waited for its answer")
        return future.result()


@contextmanager
def asking(
    session: Session | SyncSession,
    *,
    request_id: str | None = None,
    runner: str | None = None,
    **details: Unpack[AskDetails],
) -> Iterator[AskContext]:
    """Let guarded tools in the block, and in tasks and threads started from it, ask in this session.

    `request_id` is the id of one tool call: a retry with it after a crash attaches to its request.
    `runner` is the name of the workflow run: a retry in the same run may claim a call that it had claimed before the
    crash, and nobody else may.
    `details` are `tool`, `metadata`, `agent`, `parent` and `cwd`, as of `Session.ask_tool`. Raises InputError.
    """
    made = AskContext(session, request_id=request_id, runner=runner, **details)
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)


def current_asking(tool_name: str) -> AskContext:
    """Return the current context. Raises InputError without one, so that nothing runs."""
    found = _current.get()
    if found is None:
        raise InputError(
            f"the tool `{tool_name}` has no session to ask in; call it inside `with asking(session):`, or give "
            "`session` to its decorator"
        )
    return found


def _joined(said: AskDetails, more: ToolAskOptions) -> ToolAskOptions:
    """Merge the arguments of the tool and of the context; in metadata the context wins."""
    both = {**(more.get("metadata") or {}), **(said.get("metadata") or {})}
    return {**said, **more, "metadata": both or None}


async def _withdraw(session: Session, request_id: str) -> None:
    """Cancel the request, or its prerequisite. Does nothing if it is settled or the ledger is unreachable."""
    with suppress(LedgerError, TimeoutError):
        async with asyncio.timeout(WITHDRAWING_SECONDS):
            for one in await session.pending():
                if _is_of(one.request.request_id, request_id):
                    await session.cancel(one.request.request_id, cause="asker_gave_up")


def _withdraw_blocking(session: SyncSession, request_id: str) -> None:
    with suppress(LedgerError):
        for one in session.pending():
            if _is_of(one.request.request_id, request_id):
                session.cancel(one.request.request_id, cause="asker_gave_up")


def _leave(leave: Callable[..., None], tool_name: str, *exc: object) -> None:
    """Record the end of a run. A failure is logged: the tool has run, and its result counts."""
    try:
        leave(*exc)
    except LedgerError as error:
        log.warning("the end of a call of tool `%s` could not be recorded: %s", tool_name, error)


def _is_of(found: str, request_id: str) -> bool:
    return found == request_id or found.startswith(f"{request_id}.")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
