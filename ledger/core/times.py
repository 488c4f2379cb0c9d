"""Times as RFC 3339 in UTC, and durations in text form: `60s`, `5m`, `36h`, `7d`, `none`."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from ledger.core.errors import InputError
from ledger.core.late_patterns import late_pattern
from ledger.core.limits import DURATION_MS_MAX

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_UNITS_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_WRITTEN = late_pattern(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)


def parse_duration(text: str, what: str = "duration") -> int | None:
    """Parse a duration as milliseconds, or None for `none` (never). Raises InputError."""
    if text == "none":
        return None
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise InputError(f"the {what} `{text}` is not a duration; write it like `60s`, `5m`, `36h`, `7d` or `none`")
    return check_duration_ms(int(found[1]) * _UNITS_MS[found[2]], what)


def check_duration_ms(value: int, what: str = "duration") -> int:
    """Return the value if it is at least 1 ms and at most ten years. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"the {what} must be a whole number of milliseconds, not {value!a}")
    if not 0 < value <= DURATION_MS_MAX:
        raise InputError(f"the {what} of {value} ms is out of range; at least 1 ms and at most ten years are accepted")
    return value


def seconds_as_ms(seconds: object, what: str) -> int | None:
    """Return a checked number of seconds in ms; None stays None. Raises InputError."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InputError(f"the {what} must be a number of seconds, not {seconds!a}")
    return check_duration_ms(round(seconds * SECOND_MS), what)


def format_duration(ms: int | None) -> str:
    """Return the shortest exact text: `60s`, `5m`, `7d`."""
    if ms is None:
        return "none"
    for unit, size in (("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS)):
        if ms % size == 0 and (ms // size > 1 or unit == "s"):
            return f"{ms // size}{unit}"
    return f"{ms}ms"


def spell_duration(ms: int) -> str:
    """Return a duration in words, as in the texts of `betcode.md`: below a day in seconds, else in days."""
    if ms >= DAY_MS:
        return _count(ms / DAY_MS, "day")
    return _count(ms / SECOND_MS, "second")


def _count(number: float, unit: str) -> str:
    written = f"{number:g}" if number < 1_000_000 else f"{number:.0f}"
    return f"{written} {unit}" if written == "1" else f"{written} {unit}s"


SECONDS_KEPT_COUNT = 256

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_time(ms: int) -> str:
    """Return `2026-11-21T10:12:00.123Z`."""
    seconds, rest_ms = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest_ms:03d}Z"


@lru_cache(maxsize=SECONDS_KEPT_COUNT)
def _second(seconds: int) -> str:
    """Return the time up to the second; the events of a session are often of few seconds."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def format_time_or_none(ms: int | None) -> str | None:
    return None if ms is None else format_time(ms)


def parse_moment(text: str) -> int:
    """As `parse_time`, for the end of a range: a date alone is the last millisecond of that day in UTC."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return parse_time(text)
    return parse_time(f"{day.isoformat()}T23:59:59.999Z")


def parse_time(text: str) -> int:
    """Parse an RFC 3339 time as milliseconds; one without a zone is UTC. Raises InputError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"`{text}` is not a time; write it like `2026-11-21T10:12:00.000Z`") from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(milliseconds=1)
