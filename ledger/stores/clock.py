"""The only clock is the server's; a process keeps an estimate of it from the answers it gets."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from ledger.core.limits import SETTLE_GRACE_MS


class Clock(Protocol):
    """The server's time in ms, as well as this process knows it."""

    @property
    def known(self) -> bool:
        """Whether the server was heard of at all."""
        ...

    @property
    def is_moved_by_hand(self) -> bool:
        """Whether it stands still until a test moves it."""
        ...

    @property
    def grace_ms(self) -> int:
        """How long who waits leaves it to an expiry worker to settle what is due."""
        ...

    def now_ms(self) -> int: ...

    def observe(self, now_ms: int) -> None:
        """An answer of the server bore this time."""
        ...

    async def wait_until(self, ms: int) -> None: ...


class EstimatedClock:
    """Server time by the last answer plus what has gone by on this machine since."""

    def __init__(self) -> None:
        self._offset_ms: float | None = None

    @property
    def known(self) -> bool:
        return self._offset_ms is not None

    @property
    def is_moved_by_hand(self) -> bool:
        return False

    @property
    def grace_ms(self) -> int:
        return SETTLE_GRACE_MS

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000 + (self._offset_ms or 0.0))

    def observe(self, now_ms: int) -> None:
        self._offset_ms = now_ms - time.monotonic() * 1000

    async def wait_until(self, ms: int) -> None:
        await sleep_until(self, ms)


LONGEST_SLEEP_SECONDS = 60.0
"""A clock may be corrected while somebody sleeps on it; no one sleeps longer than this on an old estimate."""


async def sleep_until(clock: Clock, ms: int) -> None:
    """Return when the clock has reached `ms`, or after a minute: look again then."""
    remaining = (ms - clock.now_ms()) / 1000
    await asyncio.sleep(min(max(remaining, 0.0), LONGEST_SLEEP_SECONDS))
