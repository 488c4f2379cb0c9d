"""`sessions` in pages."""

from __future__ import annotations

import re

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def five(ledger: CommandLine) -> CommandLine:
    for number in range(5):
        project = "shop" if number % 2 else "bank"
        ledger("ask", f"ses_{number}", "bash", "x", "--project", project, "--no-wait", code=7)
    return ledger


NEWEST_FIRST = ["ses_4", "ses_3", "ses_2", "ses_1", "ses_0"]


def test_a_page_says_on_stderr_how_to_go_on(five: CommandLine) -> None:
    found = five.paged("sessions", "--limit", "2")
    assert [[row["session"] for row in page] for page in found] == [
        NEWEST_FIRST[:2],
        NEWEST_FIRST[2:4],
        NEWEST_FIRST[4:],
    ]


def test_a_table_is_a_page_and_names_the_next(five: CommandLine) -> None:
    ran = five("sessions", "--limit", "3", code=0)
    assert [line.split()[0] for line in ran.out.splitlines()] == ["session", "ses_4", "ses_3", "ses_2"]
    (cursor,) = re.findall(r"--after (\S+)`", ran.err)
    then = five("sessions", "--after", cursor, code=0)
    assert [line.split()[0] for line in then.out.splitlines()] == ["session", "ses_1", "ses_0"]
    assert then.err == ""
    assert five("sessions", "--all", code=0).out.count("ses_") == len(NEWEST_FIRST)


def test_the_views_and_the_streams_ahead_of_them_make_one_list(five: CommandLine) -> None:
    five("rebuild", code=0)
    five("ask", "ses_1", "bash", "y", "--no-wait", code=7)
    rows = five("sessions", "--json", code=0).rows
    assert [row["session"] for row in rows] == ["ses_1", "ses_4", "ses_3", "ses_2", "ses_0"]
    assert rows[0]["pending"] == 2
    assert [row["session"] for row in five("sessions", "--project", "shop", "--json").rows] == ["ses_1", "ses_3"]


def test_a_page_is_asked_for_in_one_way(five: CommandLine) -> None:
    assert "not both" in five("sessions", "--limit", "2", "--all", code=2).err
    assert "is not a cursor that was handed out" in five("sessions", "--after", "abc", code=12).err
    five("sessions", "--limit", "0", code=2)
