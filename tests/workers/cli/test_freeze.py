"""`freeze` and `unfreeze`, as typed in a shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


def test_a_freeze_stops_what_a_rule_allows_and_an_unfreeze_lets_it_go_on(ledger: CommandLine, rules: Path) -> None:
    frozen = ledger("freeze", "--reason", "a leak", "--json", code=0).row
    assert (frozen["project"], frozen["reason"], frozen["frozen"]) == (None, "a leak", True)
    ledger("ask", "ses_1", "bash", "git status", "--rules", rules, "--id", "r1", "--no-wait", code=7)
    ended = ledger("unfreeze", "--json", code=0).row
    assert (ended["ended"]["by"], ended["still"]) == (frozen["by"], [])
    again = ledger("ask", "ses_1", "bash", "git status", "--rules", rules, "--id", "r1", "--json", code=0).row
    assert again["outcome"] == "allowed"


@pytest.mark.slow
@pytest.mark.process
def test_a_yes_during_a_freeze_ends_with_exit_code_14_and_names_who_froze_it(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "git push", "--project", "shop", "--id", "r1", "--no-wait", code=7)
    ledger("freeze", "--project", "shop", "--reason", "a leak", code=0)
    refused = ledger("reply", "r1", "once", code=14)
    assert refused.err.startswith("error: nothing is allowed now: project `shop` was frozen by ")
    assert refused.err.splitlines()[0].endswith(": a leak")
    assert "hint: `permission-ledger freeze --list` shows it" in refused.err
    error = ledger("reply", "r1", "once", "--json", code=14).error
    assert (error["code"], error["reason"], error["project"], error["agent"]) == ("FROZEN", "a leak", "shop", "stop")
    ledger("grant", "--project", "shop", "bash", "git *", code=14)
    ledger("reply", "r1", "reject", code=0)


def test_freezes_are_listed_and_doctor_says_them(ledger: CommandLine) -> None:
    assert ledger("freeze", "--list", code=0).err == "nothing is frozen\n"
    ledger("freeze", "--reason", "a leak", code=0)
    ledger("freeze", "--project", "shop", "--reason", "a release", code=0)
    rows = ledger("freeze", "--list", "--json", code=0).rows
    assert [(row["project"], row["reason"]) for row in rows] == [(None, "a leak"), ("shop", "a release")]
    found = [row for row in ledger("doctor", "--json", code=11).rows if row["check"] == "freeze"]
    assert [row["ok"] for row in found] == [False, False]
    assert found[1]["hint"] == "when it may go on: `permission-ledger unfreeze --project shop`"


def test_an_unfreeze_names_what_is_still_frozen(ledger: CommandLine) -> None:
    ledger("freeze", "--reason", "a leak", code=0)
    ledger("freeze", "--project", "shop", "--reason", "a release", code=0)
    out = ledger("unfreeze", code=0).out
    assert out.startswith("the ledger is not frozen any more\n  still: project `shop` was frozen by ")
    assert ledger("unfreeze", code=0).out.startswith("the ledger was not frozen\n")


def test_a_freeze_without_a_reason_is_wrong_usage(ledger: CommandLine) -> None:
    assert "give the reason with --reason TEXT" in ledger("freeze", code=2).err
