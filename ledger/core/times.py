"""Conversion of server milliseconds from and to RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from ledger.core.errors import InputError

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
