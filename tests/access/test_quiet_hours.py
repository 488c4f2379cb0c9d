"""Quiet hours: their bounds, across midnight, by day of the week and through changes of the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from ledger.access.notifications import check_quiet, quiet_until_ms
from ledger.core.access_events import QuietHours
from ledger.core.errors import InputError

ZONE: Final = "Europe/Berlin"
NIGHT: Final = QuietHours(begin=22 * 60, until=7 * 60, zone=ZONE)


def ms(text: str, zone: str = ZONE) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-11-23 21:59", None),
        ("2026-11-23 22:00", "2026-11-24 07:00"),
        ("2026-11-24 06:59", "2026-11-24 07:00"),
        ("2026-11-24 07:00", None),
        # The clock went back at 3:00 on October 25, and forward at 2:00 on March 29.
        ("2026-10-25 00:30", "2026-10-25 07:00"),
        ("2026-03-29 00:30", "2026-03-29 07:00"),
    ],
)
def test_a_night_ends_in_the_morning_by_the_clock_on_the_wall(at: str, until: str | None) -> None:
    assert quiet_until_ms(NIGHT, ms(at)) == (None if until is None else ms(until))


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    friday = QuietHours(begin=22 * 60, until=7 * 60, zone=ZONE, days=(4,))
    assert quiet_until_ms(friday, ms("2026-11-28 03:00")) == ms("2026-11-28 07:00")
    assert quiet_until_ms(friday, ms("2026-11-27 03:00")) is None


def test_hours_within_one_day_end_on_it() -> None:
    lunch = QuietHours(begin=12 * 60, until=13 * 60, zone=ZONE)
    assert quiet_until_ms(lunch, ms("2026-11-24 12:30")) == ms("2026-11-24 13:00")
    assert quiet_until_ms(lunch, ms("2026-11-24 23:30")) is None


def test_without_quiet_hours_or_with_an_unknown_zone_nothing_is_quiet() -> None:
    assert quiet_until_ms(None, ms("2026-11-24 03:00")) is None
    assert quiet_until_ms(QuietHours(begin=0, until=1439, zone="Mars/Base"), ms("2026-11-24 03:00")) is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"begin": -1}, "begin at minute -1"),
        ({"until": 1440}, "until at minute 1440"),
        ({"until": 1320}, "must end at another time than they begin"),
        ({"days": ()}, "name the days"),
        ({"days": (7,)}, "name the days"),
        ({"zone": "Mars/Base"}, "`Mars/Base` is not a time zone known here"),
        ({"zone": "../../etc/passwd"}, "is not a time zone known here"),
        ({"zone": "x" * 5000}, "is not a time zone known here"),
        ({"zone": ""}, "is not a time zone known here"),
    ],
)
def test_quiet_hours_that_make_no_sense_are_refused_with_the_reason(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        check_quiet(QuietHours(**{"begin": 1320, "until": 420, "zone": ZONE, **given}))


def test_days_are_kept_in_order_and_once() -> None:
    kept = check_quiet(QuietHours(begin=0, until=60, zone="UTC", days=(4, 0, 4)))
    assert kept is not None
    assert kept.days == (0, 4)
    assert check_quiet(None) is None
