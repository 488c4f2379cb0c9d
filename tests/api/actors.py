"""Participants in the tests of the API: an agent that waits for its answer, and the log's account of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from ledger import InputError, Ledger, LedgerError, Result, Session
from ledger.stores.port import Append, AppendResult, Entry, Position, StreamKey
from ledger.stores.store import Answered, append_to
from ledger.testing import TestClock
from tests.support.store_calls import answer_with
from tests.support.waiting import wait_until_async

OpenLedger: TypeAlias = Callable[..., Awaitable[Ledger]]

RULES: Final = [
    {"permission": "read", "pattern": "*", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
]
"""The rules most tests open a session with: `read` is allowed, `rm` is denied, all else is asked."""

ANN: Final = "ann"
BOB: Final = "bob"


async def ask_and_wait(
    session: Session, request_id: str, *patterns: str, permission: str = "bash", **more: Any
) -> asyncio.Task[Result]:
    """Start an agent's ask; return when its request is pending."""
    task = asyncio.create_task(
        session.ask(permission, patterns or ("git push",), request_id=request_id, **more), name=f"ask {request_id}"
    )

    async def pending_or_done() -> bool:
        if task.done():
            return True
        try:
            return (await session.result(request_id)).outcome is None
        except LedgerError:
            return False

    await wait_until_async(pending_or_done, f"{request_id} to be pending")
    assert not task.done(), f"{request_id} did not wait: {task}"
    return task


async def pend(session: Session, request_id: str, *patterns: str, permission: str = "bash", **more: Any) -> Result:
    """Ask without waiting for an answer; the request must be pending."""
    result = await session.submit(permission, patterns or ("git push",), request_id=request_id, **more)
    assert result.outcome is None
    return result


async def events_of(session: Session, after: int = 0) -> list[str]:
    """Return the types of the session's events after a version."""
    return [event.type async for event in session.events(after, follow_on=False)]


async def outcome_of(session: Session, request_id: str) -> str | None:
    return (await session.result(request_id)).outcome


async def pending_ids(session: Session) -> list[str]:
    return [one.request.request_id for one in await session.pending()]


async def raised(awaitable: Awaitable[object]) -> LedgerError:
    """Return the ledger's error that ends this call."""
    try:
        answer = await awaitable
    except LedgerError as error:
        return error
    raise AssertionError(f"nothing was raised, but {answer!r} returned")


async def text_of_input_error(awaitable: Awaitable[object]) -> str:
    error = await raised(awaitable)
    assert isinstance(error, InputError), error
    return error.text


async def all_done(tasks: Iterable[asyncio.Task[Result]]) -> list[str | None]:
    """Return each ask's outcome, or the code of its error."""

    async def outcome(task: asyncio.Task[Result]) -> str | None:
        try:
            return (await task).outcome
        except LedgerError as error:
            return error.code

    return [await outcome(task) for task in tasks]


def minutes_later(clock: TestClock, minutes: int) -> None:
    clock.advance(minutes * 60_000)


def before_the_next_append(ledger: Ledger, do: Callable[[], Awaitable[object]]) -> None:
    """Run `do`, as another process would, between this ledger's decision and its append."""
    store = ledger.store
    posting = store.post
    tasks = []

    def post(append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        store.post = posting  # type: ignore[method-assign]

        async def late() -> tuple[AppendResult, tuple[Entry, ...]]:
            await do()
            return await append_to(store, append, also_read)

        tasks.append(asyncio.create_task(answer_with(answered, late())))

    store.post = post  # type: ignore[method-assign]
