"""Deadlines of requests in seconds, as arguments of callers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from ledger.core.durations import SECOND_MS, check_duration_ms, format_duration, parse_duration
from ledger.core.errors import InputError
from ledger.core.events import Settings
from ledger.core.limits import LEAST_GAIN_MS


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines in seconds; None means never. `betcode.md`: 60 s attended, 7 days unattended, at most 30 days.

    `least_gain` is the least time that a connecting client must give an unattended request to extend it (of a short
    unattended time: a tenth); 0 counts every connection, as `betcode.md` does.
    """

    attended: float | None = 60
    unattended: float | None = 7 * 86400
    cap: float | None = 30 * 86400
    least_gain: float = LEAST_GAIN_MS / SECOND_MS

    @classmethod
    def of(cls, settings: Settings) -> Timeouts:
        """Return the deadlines of a session's settings."""
        known = (settings.attended_ms, settings.unattended_ms, settings.cap_ms)
        attended, unattended, cap = (None if ms is None else ms / SECOND_MS for ms in known)
        least_gain = settings.least_gain_ms / SECOND_MS
        return cls(attended=attended, unattended=unattended, cap=cap, least_gain=least_gain)

    def stated(self, texts: Mapping[str, str | None], label: str) -> Timeouts:
        """Return these with the durations of the texts, by field; None leaves a field unchanged.

        `label` is the field's label in errors, with `{}` for its name. Raises InputError.
        """
        durations = {
            field: parse_duration(text, label.format(field)) for field, text in texts.items() if text is not None
        }
        return replace(self, **{field: None if ms is None else ms / SECOND_MS for field, ms in durations.items()})

    def described(self) -> str:
        """Return both deadlines as text."""
        ms = self.as_ms()
        return f"{format_duration(ms['attended_ms'])} attended, {format_duration(ms['unattended_ms'])} unattended"

    def as_ms(self) -> dict[str, int | None]:
        """Return the members of `Settings` in ms. Raises InputError for a duration out of range."""
        return {
            "attended_ms": _ms(self.attended, "attended time"),
            "unattended_ms": _ms(self.unattended, "unattended time"),
            "cap_ms": _ms(self.cap, "longest time"),
            "least_gain_ms": _least_gain_ms(self.least_gain),
        }


def _ms(seconds: object, what: str) -> int | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InputError(f"the {what} must be a number of seconds, or None for never, not {seconds!a}")
    return check_duration_ms(round(seconds * 1000), what)


def _least_gain_ms(seconds: object) -> int:
    if seconds == 0 and not isinstance(seconds, bool):
        return 0
    ms = _ms(seconds, "least gain")
    if ms is None:
        raise InputError("the least gain must be a number of seconds")
    return ms
