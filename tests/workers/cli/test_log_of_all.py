"""`log --all`, and `log` in pages."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine

SESSIONS = ["ses_0", "ses_1", "ses_2"]


@pytest.fixture
def three(ledger: CommandLine) -> CommandLine:
    for name in SESSIONS:
        ledger("ask", name, "bash", "x", "--no-wait", code=7)
    return ledger


def test_all_events_come_session_by_session_the_one_that_rests_longest_first(three: CommandLine) -> None:
    for _ in range(2):
        rows = three("log", "--all", "--json", code=0).rows
        assert list(dict.fromkeys(row["session"] for row in rows)) == SESSIONS
        for name in SESSIONS:
            own = [{**row} for row in rows if row["session"] == name]
            assert [row.pop("session") for row in own] == [name] * len(own)
            assert own == three("log", name, "--json", code=0).rows
        three("rebuild", code=0)
    three("reply", "--session", "ses_0", three("pending", "--session", "ses_0", "--json").row["request_id"], "once")
    rows = three("log", "--all", "--json", code=0).rows
    assert list(dict.fromkeys(row["session"] for row in rows)) == ["ses_1", "ses_2", "ses_0"]


def test_pages_of_all_events_are_the_whole(three: CommandLine) -> None:
    whole = three("log", "--all", "--json", code=0).rows
    for limit in ("1", "3"):
        assert [row for page in three.paged("log", "--all", "--limit", limit) for row in page] == whole
    of_one = three("log", "ses_1", "--json", code=0).rows
    assert [row for page in three.paged("log", "ses_1", "--limit", "1") for row in page] == of_one


def test_a_line_of_all_events_begins_with_its_session(three: CommandLine) -> None:
    lines = three("log", "--all", code=0).out.splitlines()
    of_one = three("log", "ses_1", code=0).out.splitlines()
    assert [line for line in lines if line.startswith("ses_1  ")] == [f"ses_1  {line}" for line in of_one]
    page = three("log", "--all", "--limit", "3", code=0)
    assert page.out.splitlines() == lines[:3]
    cursor = page.err.split("--after ")[1].strip("`\n")
    assert three("log", "--all", "--after", cursor, code=0).out.splitlines() == lines[3:]


def test_events_are_asked_for_in_one_way(three: CommandLine) -> None:
    assert "either SESSION or --all" in three("log", code=2).err
    assert "either SESSION or --all" in three("log", "ses_1", "--all", code=2).err
    assert "--follow is for one session" in three("log", "--all", "--follow", code=2).err
    assert "not both" in three("log", "ses_1", "--follow", "--limit", "1", code=2).err
    assert "--after VERSION" in three("log", "ses_1", "--after", "x", code=2).err
    for cursor in ("x", "1-2-", "1-x-ses_1", "1-2-a b"):
        three("log", "--all", "--after", cursor, code=12)
