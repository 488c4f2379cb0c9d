"""`hold` and `unhold`, as typed in a shell."""

from __future__ import annotations

from tests.support.command_line import CommandLine


def test_a_hold_is_placed_listed_and_lifted(ledger: CommandLine) -> None:
    assert ledger("hold", "--list", code=0).err == "nothing is under a hold\n"
    placed = ledger("hold", "--project", "shop", "--reason", "case 7", "--json", code=0).row
    assert (placed["project"], placed["session"], placed["reason"], placed["held"]) == ("shop", None, "case 7", True)
    (row,) = ledger("hold", "--list", "--json", code=0).rows
    assert row == {name: placed[name] for name in ("project", "session", "by", "at", "reason")}
    assert "project shop" in ledger("hold", "--list", code=0).out
    ended = ledger("unhold", "--project", "shop", "--json", code=0).row
    assert (ended["held"], ended["ended"]["by"]) == (False, placed["by"])
    assert ledger("unhold", "--project", "shop", code=0).out == "project `shop` was not under a hold\n"


def test_a_session_is_held_by_its_id_and_an_unknown_one_is_exit_code_9(ledger: CommandLine) -> None:
    assert "there is no session `ses_1`" in ledger("hold", "--session", "ses_1", "--reason", "x", code=9).err
    ledger("ask", "ses_1", "bash", "git push", "--id", "r1", "--no-wait", code=7)
    held = ledger("hold", "--session", "ses_1", "--reason", "case 7", code=0).out
    assert held.startswith("session `ses_1` is under a legal hold, placed by ")
    assert held.endswith(": case 7\n")
    ledger("reply", "r1", "once", code=0)
    assert ledger("unhold", "--session", "ses_1", code=0).out == "session `ses_1` is not under a hold any more\n"


def test_a_hold_names_its_reason_and_one_reach(ledger: CommandLine) -> None:
    assert "give the reason with --reason TEXT" in ledger("hold", "--project", "shop", code=2).err
    for reach in ((), ("--project", "shop", "--session", "ses_1")):
        assert "--project PROJECT or --session SESSION" in ledger("hold", *reach, "--reason", "x", code=2).err
        assert "--project PROJECT or --session SESSION" in ledger("unhold", *reach, code=2).err
