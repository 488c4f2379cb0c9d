"""Bounds on the command line: `reply --expires --uses --pattern`, `grant --uses`, `revoke --uses-of`, `approved`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.command_line import CommandLine

ASK = ("ask", "ses_1", "bash", "git push origin", "--always", "git push *", "--project", "shop", "--no-wait")


def approved(ledger: CommandLine) -> list[dict[str, Any]]:
    return ledger("approved", "--project", "shop", "--json", code=0).rows


def test_a_reply_remembers_for_a_time_and_for_some_calls(ledger: CommandLine) -> None:
    ledger(*ASK, "--id", "r1", code=7)
    replied = ledger("reply", "r1", "always", "--expires", "1h", "--uses", "2", "--json", code=0).row
    assert replied["bounds"] == {"expires": "60m", "uses": 2, "patterns": None, "wider": False}
    assert replied["message"] == "it is remembered for 60m and for 2 more calls"
    (made,) = approved(ledger)
    assert (made["uses"], made["uses_left"], made["expires_at"] is None) == (2, 2, False)
    ledger(*ASK, "--id", "r2", code=0)
    ledger(*ASK, "--id", "r3", code=0)
    ledger(*ASK, "--id", "r4", code=7)
    assert approved(ledger) == []
    used = ledger("revoke", "--uses-of", made["grant_id"], "--json", code=0).rows
    assert [(row["session"], row["request_id"], row["outcome"]) for row in used] == [
        ("ses_1", "r2", "allowed"),
        ("ses_1", "r3", "allowed"),
    ]


def test_a_list_says_uses_left_and_the_last_use(ledger: CommandLine) -> None:
    ledger(*ASK, "--id", "r1", code=7)
    said = ledger("grant", "--project", "shop", "bash", "git push *", "--uses", "3", code=0).out
    assert ", for 3 calls" in said
    ledger(*ASK, "--id", "r2", code=0)
    table = ledger("approved", "--project", "shop", code=0).out
    assert "uses left" in table
    assert "2 of 3" in table
    (row,) = approved(ledger)
    assert row["last_used_at"] is not None


def test_a_list_says_the_last_use_of_a_projects_grant_without_a_limit(ledger: CommandLine) -> None:
    ledger(*ASK, "--id", "r1", code=7)
    ledger("grant", "--project", "shop", "bash", "git push *", code=0)
    (row,) = approved(ledger)
    assert row["last_used_at"] is None
    ledger(*ASK, "--id", "r2", code=0)
    (row,) = approved(ledger)
    assert (row["uses_left"], row["expires_at"]) == (None, None)
    assert row["last_used_at"] is not None


def test_an_edited_pattern_is_remembered_and_a_wider_one_is_marked(ledger: CommandLine) -> None:
    ledger(*ASK, "--id", "r1", code=7)
    refused = ledger("reply", "r1", "always", "--pattern", "npm *", code=12)
    assert "would not allow request `r1` itself" in refused.err
    ledger("reply", "r1", "always", "--pattern", "git *", "--pattern", "git push origin", code=0)
    assert {row["pattern"]: row.get("wider", False) for row in approved(ledger)} == {
        "git *": True,
        "git push origin": False,
    }
    assert "wider than offered" in ledger("log", "ses_1", code=0).out + ledger("approved", "--project", "shop").out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("once", "--uses", "2"), "remembers nothing"),
        (("always", "--uses", "0"), "from 1 to 1000"),
        (("always", "--expires", "soon"), "is not a duration"),
    ],
)
def test_bounds_that_mean_nothing_are_refused_with_words(ledger: CommandLine, more: tuple[str, ...], said: str) -> None:
    ledger(*ASK, "--id", "r1", code=7)
    assert said in ledger("reply", "r1", *more, code=12).err
    assert ledger("pending", "--json").row["request_id"] == "r1"


def test_patterns_go_with_one_request(ledger: CommandLine) -> None:
    assert "--pattern is for one request" in ledger("reply", "r1", "r2", "always", "--pattern", "x", code=2).err


def test_a_grant_is_revoked_or_its_uses_are_shown(ledger: CommandLine) -> None:
    ledger("revoke", code=2)
    ledger("revoke", "grn_1", "--uses-of", "grn_1", code=2)
    ledger("revoke", "--uses-of", "grn_1", code=9)
