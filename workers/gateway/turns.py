"""Fair turns on the gateway's loop: of one caller, a few requests are let in at each pass of it.

Who sends hundreds at once waits behind themselves, and whoever comes next is let in at once. After a pass in which one
caller's requests waited, the loop is others' for as long as that pass took. It bounds how many are let in, not how long
each one lasts: a request that waits for an answer holds nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

LET_IN_COUNT: Final = 4
"""Requests of one caller that are let in at one pass; one after a pass that took long."""

LONG_SECONDS: Final = 0.005
REST_SECONDS_MAX: Final = 0.05


class Turns:
    """Who waits to be let in, in order, for each caller that came within this pass."""

    def __init__(self, count: int = LET_IN_COUNT) -> None:
        self._count = count
        self._left: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, caller: str) -> None:
        """Return when the caller's next request is let in."""
        if caller not in self._left:
            self._let_in(caller, self._count)
        if self._left[caller]:
            self._left[caller] -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        await turn

    def waiting_count(self, caller: str) -> int:
        """Return how many requests of a caller wait to be let in."""
        return sum(not one.done() for one in self._waiting.get(caller, ()))

    def _let_in(self, caller: str, count: int) -> None:
        """Let in so many of those who wait, and who comes within this pass up to the same number."""
        waiting = self._waiting.get(caller, deque())
        self._left[caller] = count
        while waiting and self._left[caller]:
            turn = waiting.popleft()
            if not turn.done():  # its connection may be gone
                turn.set_result(None)
                self._left[caller] -= 1
        loop = asyncio.get_running_loop()
        loop.call_soon(self._passed, caller, loop.time())

    def _passed(self, caller: str, began: float) -> None:
        """One pass of the loop is over, with the work of all who were in it."""
        if not self._waiting.get(caller):
            del self._left[caller]
            self._waiting.pop(caller, None)
            return
        loop = asyncio.get_running_loop()
        took = loop.time() - began
        count = self._count if took < LONG_SECONDS else 1
        loop.call_later(min(took, REST_SECONDS_MAX), self._let_in, caller, count)
