"""`reply` with several requests: one result each, and the worst exit code of them."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from workers.cli.base import _EXITS
from workers.cli.output import WORST_FIRST, Exit, worst


def asked(ledger: CommandLine, *ids: str) -> None:
    """Each in a session of its own: a reject would reject what waits beside it."""
    for request in ids:
        ledger("ask", f"ses_{request}", "bash", f"git push {request}", "--id", request, "--no-wait", code=7)


def test_each_request_is_answered_by_the_same_person_with_the_same_words(ledger: CommandLine) -> None:
    asked(ledger, "r1", "r2")
    ran = ledger("reply", "r1", "r2", "reject", "--message", "not today", "--as", "ann", "--json", code=0)
    assert [(row["request_id"], row["outcome"], row["by"]) for row in ran.rows] == [
        ("r1", "corrected", "ann"),
        ("r2", "corrected", "ann"),
    ]
    assert all("not today" in row["message"] for row in ran.rows)


def test_what_a_reject_takes_along_counts_as_answered_too(ledger: CommandLine) -> None:
    for request in ("r1", "r2"):
        ledger("ask", "ses_1", "bash", f"git push {request}", "--id", request, "--no-wait", code=7)
    ran = ledger("reply", "r1", "r2", "reject", "--message", "not today", "--as", "ann", code=0)
    assert ran.err == ""
    assert "it followed from the answer to r1" in ran.out


def test_one_that_fails_stops_none_of_the_others_and_decides_the_exit_code(ledger: CommandLine) -> None:
    asked(ledger, "r1", "r2", "r3")
    ledger("reply", "r2", "reject", "--message", "no", "--as", "bob", code=0)
    ran = ledger("reply", "r1", "r2", "nobody", "r3", "once", code=9)
    assert [line for line in ran.out.splitlines() if line.startswith("  request")] == [
        "  request  r1 of session ses_r1, version 3",
        "  request  r3 of session ses_r3, version 3",
    ]
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2
    assert "`r2`" in errors[0]
    assert "`nobody`" in errors[1]


def test_a_request_that_is_named_twice_is_answered_once(ledger: CommandLine) -> None:
    asked(ledger, "r1")
    ran = ledger("reply", "r1", "r1", "once", code=0)
    assert ran.err == "info: request `r1` was already answered the same way\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["reply", "r1"], "give REQUEST and then the reply: `permission-ledger reply r1 once`"),
        (["reply", "once", "r1"], "the reply comes last: `permission-ledger reply r1 once`"),
        (
            ["reply", "r1", "r2", "once", "--digest", "0" * 64],
            "--digest is for one request; answer the others without it, or one by one",
        ),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(ledger: CommandLine, words: list[str], error: str) -> None:
    assert f"error: {error}\n" in ledger(*words, code=2).err


def test_a_word_that_is_no_reply_answers_none_of_them(ledger: CommandLine) -> None:
    asked(ledger, "r1", "r2")
    assert ledger("reply", "r1", "r2", "perhaps", code=12).err.startswith("error: `perhaps` is not a reply;")
    assert len(ledger("pending", "--json", code=0).rows) == 2


def test_a_server_that_is_lost_ends_it_and_says_what_was_not_tried(ledger: CommandLine) -> None:
    ran = ledger("reply", "r1", "r2", "r3", "once", "--url", "redis://127.0.0.1:1", code=8)
    assert ran.out == ""


def test_the_worst_exit_code_is_defined_for_every_error_of_a_reply() -> None:
    refusals = {Exit.DENIED, Exit.REJECTED}  # outcomes of an ask
    assert set(_EXITS.values()) - refusals <= set(WORST_FIRST)
    assert worst([Exit.DONE, Exit.ANSWERED_OTHERWISE, Exit.UNKNOWN]) is Exit.UNKNOWN
