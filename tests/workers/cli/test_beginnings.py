"""Ids by their beginning: in every command, of one of all that are known, and the whole one is told."""

from __future__ import annotations

from ledger.core.ids import new_request_id
from tests.support.command_line import CommandLine


def asked(ledger: CommandLine, request: str, session: str = "0197c3aa-4d1e-7c93") -> None:
    ledger("ask", session, "bash", "git push", "--id", request, "--no-wait", code=7)


def test_a_beginning_names_a_request_in_every_command_and_is_told_whole(ledger: CommandLine) -> None:
    asked(ledger, "call_0001")
    for words in (["pending"], ["why"], ["show"], ["extend"], ["cancel", "--session", "0197c3aa"]):
        ran = ledger(words[0], "call_000", *words[1:])
        assert "info: `call_000` is request `call_0001`" in ran.err, words
    assert ledger("pending", "--json").rows == [], "cancelled"
    assert "0197c3aa-4d1e-7c93" in ledger("log", "0197c3aa", code=0).err
    ran = ledger("close", "0197c3aa", "--json", code=0)
    assert ran.row["session"] == "0197c3aa-4d1e-7c93"
    assert ran.error["info"] == "`0197c3aa` is session `0197c3aa-4d1e-7c93`"


def test_a_beginning_of_a_grant_a_token_and_a_device(ledger: CommandLine) -> None:
    grant = ledger("grant", "--project", "shop", "bash", "ls", "--json", code=0).row["grant_id"]
    assert ledger("revoke", grant[:20], "--json", code=0).row["grant_id"] == grant
    token = ledger("token", "create", "ann", "--role", "approver", "--json", code=0).row["token_id"]
    assert ledger("token", "revoke", token[:9], "--json", code=0).row["token_id"] == token
    ledger("device", "remove", "dev_none", code=9)


def test_an_ambiguous_beginning_is_refused_with_the_candidates(ledger: CommandLine) -> None:
    asked(ledger, "call_0001")
    asked(ledger, "call_0002", "0197c3ab-4d1e-7c93")
    said = ledger("cancel", "call_0", code=12).err
    assert "`call_0` begins the ids of several requests: `call_0001`, `call_0002`; type more" in said
    assert len(ledger("pending", "--json").rows) == 2


def test_a_whole_id_that_begins_another_is_itself(ledger: CommandLine) -> None:
    asked(ledger, "call_1")
    asked(ledger, "call_10")
    ledger("cancel", "call_1", code=0)
    assert [row["request_id"] for row in ledger("pending", "--json").rows] == ["call_10"]


def test_a_beginning_never_comes_to_mean_a_request_that_was_asked_since(ledger: CommandLine) -> None:
    asked(ledger, "call_41")
    ledger("cancel", "call_41", code=0)
    asked(ledger, "call_42")
    said = ledger("reply", "call_4", "once", "--yes", code=12).err
    assert "`call_42` in `0197c3aa-4d1e-7c93`, `call_41` in `0197c3aa-4d1e-7c93` (ended)" in said
    assert len(ledger("pending", "--json").rows) == 1
    assert ledger("reply", "call_42", "once", "--json", code=0).row["outcome"] == "allowed"
    ended = ledger("reply", "call_41", "reject", code=10).err
    assert "`call_41`" in ended


def test_a_name_that_begins_the_name_of_a_session_is_not_that_session(ledger: CommandLine) -> None:
    asked(ledger, "call_1", "ses_12")
    assert "there is no session `ses_1`" in ledger("close", "ses_1", code=9).err
    ledger("ask", "0197c3aa", "bash", "ls", "--no-wait", code=7)
    assert ledger("sessions", "--json").rows[0]["session"] == "0197c3aa", "an ask opens the session that it names"


def test_ids_of_one_moment_are_told_apart(ledger: CommandLine) -> None:
    first, second = new_request_id(), new_request_id()
    asked(ledger, first)
    asked(ledger, second)
    assert ledger("pending", first[:17], "--json", code=0).row["request_id"] == first


def test_show_prints_a_request_and_the_words_of_its_rejection(ledger: CommandLine) -> None:
    asked(ledger, "call_41")
    assert ledger("show", "call_41", code=0).out == ledger("pending", "call_41", code=0).out
    assert ledger("show", "call_41", "--json", code=0).row["request_id"] == "call_41"
    assert "is a request; --at" in ledger("show", "call_41", "--at", "2", code=12).err
    ledger("reply", "call_41", "reject", "--message", "use the plan first", "--as", "ann", code=0)
    told = ledger("show", "call_41", code=0).out
    assert told.startswith("rejected by ann with instructions\n")
    assert "  message  use the plan first\n" in told
    assert "  asked    because no rule matches, and the default is ask\n" in told
    assert "rejected by ann with instructions: use the plan first" in ledger("show", "0197c3aa-4d1e-7c93").out
    assert "there is no session `nothing`" in ledger("show", "nothing", code=9).err


def test_what_a_rule_allowed_has_a_reason_that_reads_as_one(ledger: CommandLine) -> None:
    ledger("grant", "--project", "shop", "bash", "ls", code=0)
    ledger("ask", "ses_1", "bash", "ls", "--project", "shop", "--id", "call_1", code=0)
    assert "asked    because" not in ledger("show", "call_1", code=0).out
