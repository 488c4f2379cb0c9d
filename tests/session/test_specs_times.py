"""betcode.md, Permission Timeout Handling: the default numbers."""

from __future__ import annotations

from ledger import Timeouts
from ledger.core.events import Settings

MINUTE_MS = 60_000
DAY_MS = 86_400_000


def test_a_minute_with_somebody_there_else_seven_days_and_thirty_in_all() -> None:
    assert Timeouts().as_ms() == {
        "attended_ms": MINUTE_MS,
        "unattended_ms": 7 * DAY_MS,
        "cap_ms": 30 * DAY_MS,
        "least_gain_ms": MINUTE_MS,
    }


def test_a_session_that_is_given_no_times_has_those_that_a_caller_names_by_default() -> None:
    settings = Settings()
    names = ("attended_ms", "unattended_ms", "cap_ms", "least_gain_ms")
    assert Timeouts().as_ms() == {name: getattr(settings, name) for name in names}
