"""Parsing of the command line, and the pauses of a replay."""

from __future__ import annotations

import pytest

from ledger import InputError
from tests.support.command_line import CommandLine
from workers.cli.base import seconds, version_or_time
from workers.cli.log import PAUSE_MAX_SECONDS, pause_seconds
from workers.presentation.words import about


@pytest.mark.parametrize(
    ("text", "read"),
    [("12", 12), ("0", 0), ("2026-11-21T10:12:00Z", "2026-11-21T10:12:00Z"), ("-1", "-1"), (None, None)],
)
def test_digits_are_a_version_and_all_else_a_time(text: str | None, read: int | str | None) -> None:
    assert version_or_time(text) == read


def test_a_version_that_no_stream_can_have_is_refused() -> None:
    with pytest.raises(InputError, match="there is no version `9999"):
        version_or_time("9" * 5000)


def test_durations_are_seconds_and_none_is_for_ever() -> None:
    assert [seconds(text, "--timeout") for text in ("1500ms", "5m", "none", None)] == [1.5, 300, None, None]


def test_a_replay_keeps_the_recorded_pace_but_for_long_waits() -> None:
    pauses = [
        pause_seconds(None, 1000, 1),
        pause_seconds(0, 1000, 1),
        pause_seconds(0, 1000, 4),
        pause_seconds(0, 1000, 0),
    ]
    assert pauses == [0, 1, 0.25, 0]
    assert pause_seconds(0, 7 * 86_400_000, 1) == PAUSE_MAX_SECONDS


def test_a_span_of_time_is_told_in_its_largest_unit() -> None:
    assert [about(ms) for ms in (0, 59_999, 60_000, 7_200_000, 7 * 86_400_000)] == ["0s", "59s", "1m", "2h", "7d"]


def test_wrong_usage_is_an_object_where_json_was_asked_for(ledger: CommandLine) -> None:
    ran = ledger("pending", "--nowhere", "--json", code=2)
    told: dict[str, object] = {
        "code": "USAGE",
        "error": "no such option '--nowhere'",
        "request_id": None,
        "session": None,
        "reasons": [],
        "agent": "continue",
        "hint": "permission-ledger pending --help",
    }
    assert (ran.out, ran.error) == ("", told)


def test_who_answers_must_have_a_name_that_can_be_shown(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "x", "--id", "r1", "--no-wait", code=7)
    ran = ledger("reply", "r1", "once", "--as", "ann\x1b[2J", code=12)
    assert ran.err == "error: the name (--as) 'ann\\x1b[2J' holds characters that cannot be shown\n"
