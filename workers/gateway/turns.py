"""Fair scheduling on the gateway's loop: a few requests of each caller are admitted at each pass of it.

A caller that sends hundreds at once waits behind its own requests; the next caller is admitted at once. After a pass in
which one caller's requests waited, the loop is left to others for as long as that pass took. The number of admitted
requests is limited, not their duration: a request that waits for an answer occupies no place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

LET_IN_COUNT: Final = 4
"""Requests of one caller that are admitted at one pass; one after a long pass."""

LONG_SECONDS: Final = 0.005
REST_SECONDS_MAX: Final = 0.05


class Turns:
    """The queues of requests to be admitted, one for each caller seen within this pass."""

    def __init__(self, count: int = LET_IN_COUNT) -> None:
        self._count = count
        self._left: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, caller: str) -> None:
        """Return when the caller's next request is admitted."""
        if caller not in self._left:
            self._let_in(caller, self._count)
        if self._left[caller]:
            self._left[caller] -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        await turn

    def waiting_count(self, caller: str) -> int:
        """Return the number of a caller's queued requests."""
        return sum(not one.done() for one in self._waiting.get(caller, ()))

    def _let_in(self, caller: str, count: int) -> None:
        """Admit `count` queued requests, and new ones within this pass up to the same number."""
        waiting = self._waiting.get(caller, deque())
        self._left[caller] = count
        while waiting and self._left[caller]:
            turn = waiting.popleft()
            if not turn.done():  # its connection may be closed
                turn.set_result(None)
                self._left[caller] -= 1
        loop = asyncio.get_running_loop()
        loop.call_soon(self._passed, caller, loop.time())

    def _passed(self, caller: str, began: float) -> None:
        """End one pass of the loop, with the work of all requests in it."""
        if not self._waiting.get(caller):
            del self._left[caller]
            self._waiting.pop(caller, None)
            return
        loop = asyncio.get_running_loop()
        took = loop.time() - began
        count = self._count if took < LONG_SECONDS else 1
        loop.call_later(min(took, REST_SECONDS_MAX), self._let_in, caller, count)
