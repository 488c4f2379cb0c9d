"""Quiet hours of a person: their bounds, and when they end. Pure, but for the time zones of the machine."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ledger.core.access_events import QuietHours
from ledger.core.errors import InputError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

DAY_MINUTES: Final = 24 * 60
WEEK_DAYS: Final = 7
ZONE_CHARS: Final = 64


def check_quiet(quiet: QuietHours | None) -> QuietHours | None:
    """Return quiet hours in order. Raises InputError."""
    if quiet is None:
        return None
    for name, minute in (("begin", quiet.begin), ("until", quiet.until)):
        if not 0 <= minute < DAY_MINUTES:
            raise InputError(f"quiet hours {name} at minute {minute} of a day; 0 to {DAY_MINUTES - 1} are accepted")
    if quiet.begin == quiet.until:
        raise InputError("quiet hours must end at another time than they begin: a whole day would send nothing")
    days = tuple(sorted(set(quiet.days)))
    if not days or not all(0 <= day < WEEK_DAYS for day in days):
        raise InputError("name the days of quiet hours, from 0 (Monday) to 6 (Sunday); for none of them, turn them off")
    if zone_named(quiet.zone) is None:
        raise InputError(f"`{quiet.zone[:ZONE_CHARS]}` is not a time zone known here; write it like `Europe/Berlin`")
    return QuietHours(begin=quiet.begin, until=quiet.until, zone=quiet.zone, days=days, grave=quiet.grave)


def zone_named(name: str) -> ZoneInfo | None:
    """Return a time zone by its name in the IANA database; None for an unknown one."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - slow to import, and rarely needed

    if len(name) > ZONE_CHARS:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def quiet_until_ms(quiet: QuietHours | None, at_ms: int) -> int | None:
    """Return when (ms) the quiet hours around a time end; None outside of them, and in a time zone unknown here."""
    zone = None if quiet is None else zone_named(quiet.zone)
    if quiet is None or zone is None:
        return None
    today = datetime.fromtimestamp(at_ms / 1000, zone).date()
    for day in (today - timedelta(days=1), today):
        if day.weekday() not in quiet.days:
            continue
        midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - of the wall clock; its zone follows
        last = quiet.until + (DAY_MINUTES if quiet.until <= quiet.begin else 0)
        begin_ms, end_ms = (_ms(midnight + timedelta(minutes=one), zone) for one in (quiet.begin, last))
        if begin_ms <= at_ms < end_ms:
            return end_ms
    return None


def _ms(wall: datetime, zone: ZoneInfo) -> int:
    return round(wall.replace(tzinfo=zone).timestamp() * 1000)
