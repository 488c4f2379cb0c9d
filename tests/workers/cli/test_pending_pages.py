"""`pending` in pages."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.command_line import CommandLine

ASKED = ["r0", "r1", "r2", "r3", "r4"]


@pytest.fixture
def five(ledger: CommandLine) -> CommandLine:
    for name in ASKED:
        ledger("ask", f"ses_{name}", "bash", "x", "--id", name, "--no-wait", code=7)
    return ledger


def names(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines()]


def test_a_page_says_on_stderr_how_to_go_on(five: CommandLine) -> None:
    for _ in range(2):
        found = five.paged("pending", "--limit", "2")
        assert [[row["request_id"] for row in page] for page in found] == [ASKED[:2], ASKED[2:4], ASKED[4:]]
        five("rebuild", code=0)


def test_a_table_is_a_page_and_names_the_next(five: CommandLine) -> None:
    ran = five("pending", "--limit", "3", code=0)
    assert names(ran.out) == ["request", *ASKED[:3]]
    (cursor,) = re.findall(r"--after (\S+)`", ran.err)
    then = five("pending", "--after", cursor, code=0)
    assert names(then.out) == ["request", *ASKED[3:]]
    assert then.err == ""


def test_the_views_and_the_log_ahead_of_them_make_one_list(five: CommandLine) -> None:
    five("rebuild", code=0)
    five("reply", "r1", "once", code=0)
    five("ask", "ses_new", "bash", "x", "--id", "new", "--no-wait", code=7)
    assert [row["request_id"] for row in five("pending", "--json").rows] == ["r0", "r2", "r3", "r4", "new"]


def test_one_session_has_pages_in_order_of_asking(ledger: CommandLine) -> None:
    for name in ("b", "a", "c"):
        ledger("ask", "ses_1", "bash", name, "--id", name, "--no-wait", code=7)
    ran = ledger("pending", "--session", "ses_1", "--limit", "2", "--json", code=0)
    assert [row["request_id"] for row in ran.rows] == ["b", "a"]
    cursor = json.loads(ran.err)["cursor"]
    rest = ledger("pending", "--session", "ses_1", "--after", cursor, "--json", code=0)
    assert [row["request_id"] for row in rest.rows] == ["c"]


def test_a_page_is_asked_for_in_one_way(ledger: CommandLine) -> None:
    assert "not both" in ledger("pending", "--limit", "2", "--all", code=2).err
    assert "is not a cursor that was handed out" in ledger("pending", "--after", "abc", code=12).err
