"""How long a request may wait, in seconds, as callers say it."""

from __future__ import annotations

import math

import msgspec

from ledger.durations import check_duration_ms
from ledger.errors import InputError


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; None means never. `betcode.md`: 60 s with somebody there, 7 days otherwise, at most 30 days in all."""

    attended: float | None = 60
    unattended: float | None = 7 * 86400
    cap: float | None = 30 * 86400

    def as_ms(self) -> dict[str, int | None]:
        """The members of `Settings`. Raises InputError for a duration out of range."""
        return {
            "attended_ms": _ms(self.attended, "attended time"),
            "unattended_ms": _ms(self.unattended, "unattended time"),
            "cap_ms": _ms(self.cap, "longest time"),
        }


def _ms(seconds: object, what: str) -> int | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InputError(f"the {what} must be a number of seconds, or None for never, not {seconds!a}")
    return check_duration_ms(round(seconds * 1000), what)
