"""A clock for tests of code that uses the ledger, moved by the test, so that 60 s and 7 days pass at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ledger.core.errors import InputError
from ledger.core.times import parse_duration


class TestClock:
    """A server clock that only advances when moved. Pass it to `Ledger.connect(url, clock=…)`.

    On a real server the append script then uses this time instead of the server's. Every process of such a ledger must
    use the same clock, so it is for tests only. Any thread may move it.

    A connected client (`async with await session.connect(…)`) stays connected however far the clock is moved.
    """

    __test__ = False
    grace_ms = 0
    is_moved_by_hand = True

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def known(self) -> bool:
        return True

    def now_ms(self) -> int:
        return self._now_ms

    def observe(self, now_ms: int) -> None:
        """Do nothing: the server's replies have this clock's own time."""

    def advance(self, duration: str | int) -> None:
        """Advance by a duration (`"60s"`, `"7d"`) or by ms, and wake all sleepers."""
        ms = duration if isinstance(duration, int) else parse_duration(duration)
        if ms is None or ms < 0:
            raise InputError(f"the clock cannot be moved by `{duration}`")
        self.set(self._now_ms + ms)

    def set(self, now_ms: int) -> None:
        """Set the time, also backwards (a server whose clock was corrected)."""
        self._now_ms = now_ms
        for event, loop in list(self._waiting.items()):
            # An event may be set in its own loop only; a loop that has ended has no sleepers.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    async def wait_until(self, ms: int) -> None:
        event = asyncio.Event()
        self._waiting[event] = asyncio.get_running_loop()
        try:
            while self._now_ms < ms:
                event.clear()
                await event.wait()
        finally:
            self._waiting.pop(event, None)
