"""An outage of the gateway: one grace for all calls meanwhile, and one line about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from workers.transport.place import ServerAddress, unreachable

TOLD_AFTER_SECONDS: Final = 0.5


class Outage:
    """`grace` in seconds, from the first failure on. Times are of one monotonic clock."""

    def __init__(self, grace: float, tell: Callable[[str], None], find: Callable[[], ServerAddress]) -> None:
        self._grace = grace
        self._tell = tell
        self._find = find
        self._began_at: float | None = None
        self._failed_at = 0.0
        self._told = False

    def lasts(self, now: float, pause: float, cause: Exception) -> bool:
        """Record a failure, and return whether to try again after a pause."""
        if self._began_at is None or now - self._failed_at > self._grace + pause:
            # The time since is unknown: the gateway may have been back.
            self._began_at, self._told = now, False
        self._failed_at = now
        goes_on = now + pause <= self._began_at + self._grace
        if goes_on and not self._told and now + pause > self._began_at + TOLD_AFTER_SECONDS:
            self._told = True
            self._tell(f"{unreachable(cause, self._find)}; trying for {self._grace:g} seconds")
        return goes_on

    def ended(self) -> None:
        if self._told:
            self._tell("the permission ledger is reachable again")
        self._began_at, self._told = None, False
