"""The server's clock, which is the only one; a process estimates it from the replies it receives."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from ledger.core.limits import SETTLE_GRACE_MS


class Clock(Protocol):
    """The server's time in ms, as estimated by this process."""

    @property
    def known(self) -> bool:
        """Return whether a server time has been observed."""
        ...

    @property
    def is_moved_by_hand(self) -> bool:
        """Return whether the clock only advances when a test moves it."""
        ...

    @property
    def grace_ms(self) -> int:
        """Return how long (ms) a waiter leaves settling to an expiry worker."""
        ...

    def now_ms(self) -> int: ...

    def observe(self, now_ms: int) -> None:
        """Update the estimate with the time of a server reply."""
        ...

    async def wait_until(self, ms: int) -> None: ...


class EstimatedClock:
    """Server time: that of the last reply plus the time elapsed on this machine since."""

    grace_ms = SETTLE_GRACE_MS
    is_moved_by_hand = False

    def __init__(self) -> None:
        self._offset_ms: float | None = None

    @property
    def known(self) -> bool:
        return self._offset_ms is not None

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000 + (self._offset_ms or 0.0))

    def observe(self, now_ms: int) -> None:
        self._offset_ms = now_ms - time.monotonic() * 1000

    async def wait_until(self, ms: int) -> None:
        await sleep_until(self, ms)


LONGEST_SLEEP_SECONDS = 60.0
"""The longest sleep on one estimate, because the estimate may be corrected meanwhile."""


async def sleep_until(clock: Clock, ms: int) -> None:
    """Return when the clock has reached `ms`, or after a minute; callers check again."""
    remaining = (ms - clock.now_ms()) / 1000
    await asyncio.sleep(min(max(remaining, 0.0), LONGEST_SLEEP_SECONDS))
