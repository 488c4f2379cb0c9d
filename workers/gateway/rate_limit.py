"""A token-bucket rate limit per caller."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NoReturn

from ledger.core.errors import LedgerError

CALLERS_COUNT: Final = 10_000
"""Callers with a bucket of their own; the least recently seen one is dropped first."""


class RateLimitedError(LedgerError):
    """Too many requests in too short a time."""

    code = "RATE_LIMITED"


class Limiter:
    """At most `burst` requests at once, and `rate` a second in the long run, for each caller."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._callers: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, caller: str) -> None:
        """Raise RateLimitedError where `take` would, without counting."""
        left, _ = self._left(caller)
        if left < 1:
            self._refuse(left)

    def take(self, caller: str, count: int = 1) -> None:
        """Count a request as `count` requests. Raises RateLimitedError, with the seconds to wait as `retry_after`.

        A count above the burst takes the whole burst.
        """
        left, now = self._left(caller)
        wanted = min(count, self._burst)
        self._callers[caller] = (max(left - wanted, 0.0) if left >= wanted else left, now)
        self._callers.move_to_end(caller)
        if len(self._callers) > CALLERS_COUNT:
            self._callers.popitem(last=False)
        if left < wanted:
            self._refuse(left, wanted)

    def _left(self, caller: str) -> tuple[float, float]:
        now = self._now()
        left, since = self._callers.get(caller, (self._burst, now))
        return min(self._burst, left + (now - since) * self._rate), now

    def _refuse(self, left: float, wanted: float = 1) -> NoReturn:
        wait = max(1, round((wanted - left) / self._rate))
        raise RateLimitedError(
            f"too many requests: {self._rate:g} a second are taken; try again in {wait} s", retry_after=wait
        )
