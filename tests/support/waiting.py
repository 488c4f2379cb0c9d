"""Waiting for a condition, with a deadline and a message of the last value: the only place of the tests that sleeps."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Final, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

TIMEOUT_S: Final = 60.0
"""Time until a wait fails; long, because only a failure waits for all of it, on however busy a machine."""

POLL_INTERVAL_S: Final = 0.003


def wait_until(predicate: Callable[[], T], what: str | Callable[[], str], timeout_s: float = TIMEOUT_S) -> T:
    """Call `predicate` until its result is true, and return that result.

    Raises AssertionError, which names the condition and the last result, after `timeout_s` seconds.
    """
    until_s = time.monotonic() + timeout_s
    while not (seen := predicate()):
        if time.monotonic() > until_s:
            raise AssertionError(_too_long(what if isinstance(what, str) else what(), timeout_s, seen))
        time.sleep(POLL_INTERVAL_S)
    return seen


@overload
async def wait_until_async(predicate: Callable[[], Awaitable[T]], what: str, timeout_s: float = TIMEOUT_S) -> T: ...
@overload
async def wait_until_async(predicate: Callable[[], T], what: str, timeout_s: float = TIMEOUT_S) -> T: ...
async def wait_until_async(predicate: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> object:
    """`wait_until` for a running loop; the predicate may be a coroutine function."""
    until_s = time.monotonic() + timeout_s
    while not (seen := await _value(predicate)):
        if time.monotonic() > until_s:
            raise AssertionError(_too_long(what, timeout_s, seen))
        await asyncio.sleep(POLL_INTERVAL_S)
    return seen


async def pause() -> None:
    """Yield between two tries of a program that a test plays; never to wait for a condition."""
    await asyncio.sleep(0.05)


async def _value(predicate: Callable[[], object]) -> object:
    seen = predicate()
    return await seen if inspect.isawaitable(seen) else seen


def _too_long(what: str, timeout_s: float, seen: object) -> str:
    return f"waited {timeout_s:g} s for {what}; last seen: {seen!r}"
