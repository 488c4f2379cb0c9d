"""The context in which a guarded tool asks: session and call, set by the code around the tool."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, Unpack

from ledger.client.results import Result
from ledger.client.session import Session
from ledger.client.sync import SyncSession
from ledger.core.errors import InputError, LedgerError, StoreError
from ledger.core.ids import check_id, new_request_id
from ledger.core.requests import AskDetails, ToolAskOptions

WITHDRAWING_SECONDS: Final = 3.0
"""The timeout of the withdrawal of a request without waiters."""

LOOKING_SECONDS: Final = 1.0
"""The interval at which a waiting thread checks that the event loop still runs."""

_current: ContextVar[AskContext | None] = ContextVar("permission_ledger_asking", default=None)


class AskContext:
    """The session of asks, and their arguments besides tool and input.

    `request_id`, or `tool`, is that of one call: the first tool that asks gets it, so that its answer never serves a
    second call. Without a request id each call gets a new one, and is withdrawn when its task is cancelled, because no
    retry could attach to it.
    """

    def __init__(
        self,
        session: Session | SyncSession,
        *,
        request_id: str | None = None,
        **details: Unpack[AskDetails],
    ) -> None:
        """Raise InputError for a malformed request id."""
        self.session = session
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

    async def ask(self, tool_name: str, tool_input: Mapping[str, Any], **more: Unpack[ToolAskOptions]) -> Result:
        """As `Session.ask_tool`. Raises the same errors, and InputError for a blocking session."""
        session = self.session
        if isinstance(session, SyncSession):
            raise InputError(f"the tool `{tool_name}` is asynchronous and needs a session of `Ledger.connect`")
        named, said = self._named()
        request_id = named or new_request_id()
        try:
            return await session.ask_tool(tool_name, tool_input, request_id=request_id, **_joined(said, more))
        except asyncio.CancelledError:
            if named is None:
                await _withdraw(session, request_id)
            raise

    def ask_blocking(self, tool_name: str, tool_input: Mapping[str, Any], **more: Unpack[ToolAskOptions]) -> Result:
        """As `ask`, for a plain function: through a SyncSession, or from a thread besides the session's loop."""
        session = self.session
        if not isinstance(session, SyncSession):
            return self._in_loop(tool_name, self.ask(tool_name, tool_input, **more))
        named, said = self._named()
        request_id = named or new_request_id()
        try:
            return session.ask_tool(tool_name, tool_input, request_id=request_id, **_joined(said, more))
        except KeyboardInterrupt:
            if named is None:
                _withdraw_blocking(session, request_id)
            raise

    def _in_loop(self, tool_name: str, asked: Coroutine[Any, Any, Result]) -> Result:
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
    session: Session | SyncSession, *, request_id: str | None = None, **details: Unpack[AskDetails]
) -> Iterator[AskContext]:
    """Let guarded tools in the block, and in tasks and threads started from it, ask in this session.

    `request_id` is the id of one tool call: a retry with it after a crash attaches to its request.
    `details` are `tool`, `metadata`, `agent`, `parent` and `cwd`, as of `Session.ask_tool`. Raises InputError.
    """
    made = AskContext(session, request_id=request_id, **details)
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


def _is_of(found: str, request_id: str) -> bool:
    return found == request_id or found.startswith(f"{request_id}.")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
