"""`reply` to requests that no whole id names: shown whole, and answered as they were shown."""

from __future__ import annotations

import pytest

from ledger import Ledger
from ledger.session.decision import shown_digest
from tests.support.command_line import CommandLine
from tests.support.terminals import on_a_terminal
from workers.cli import choices


def asked(ledger: CommandLine, **commands: str) -> None:
    """Ask for each command, in a session of its own."""
    for request, command in commands.items():
        ledger("ask", f"ses_{request}", "bash", command, "--id", request, "--no-wait", code=7)


def waiting(ledger: CommandLine) -> set[str]:
    return {row["request_id"] for row in ledger("pending", "--json", code=0).rows}


def test_the_beginning_of_an_id_that_one_pending_request_has_names_it(ledger: CommandLine) -> None:
    asked(ledger, call_41="git push", call_52="rm -rf build")
    ran = ledger("reply", "call_5", "once", "--as", "ann", "--yes", "--json", code=0)
    assert (ran.row["request_id"], ran.row["outcome"], ran.row["by"]) == ("call_52", "allowed", "ann")
    assert waiting(ledger) == {"call_41"}


def test_a_beginning_that_several_have_answers_none_of_them(ledger: CommandLine) -> None:
    asked(ledger, call_41="git push", call_42="git pull")
    ran = ledger("reply", "call_4", "once", "--yes", code=12)
    assert "`call_41` in `ses_call_41`, `call_42` in `ses_call_42`" in ran.err
    assert waiting(ledger) == {"call_41", "call_42"}


@pytest.mark.parametrize("typed", ["cal", "call_9", "other"])
def test_a_short_or_strange_beginning_is_an_unknown_request(ledger: CommandLine, typed: str) -> None:
    asked(ledger, call_41="git push")
    ledger("reply", typed, "once", "--yes", code=9)
    assert waiting(ledger) == {"call_41"}


def test_without_a_terminal_and_without_yes_the_requests_are_shown_and_stay_pending(ledger: CommandLine) -> None:
    asked(ledger, call_41="git push origin main")
    for words in (["call_4"], [], ["--matching", "PUSH origin"]):
        ran = ledger("reply", *words, "once", code=7)
        assert "request call_41 of session ses_call_41: bash" in ran.out
        assert "git push origin main" in ran.out
        assert "nothing was answered: repeat it with --yes, or with whole ids\n" in ran.err
    assert waiting(ledger) == {"call_41"}


@pytest.mark.slow
def test_at_a_terminal_the_request_is_shown_and_a_person_confirms(ledger: CommandLine) -> None:
    asked(ledger, call_41="git push origin main")
    refused = on_a_terminal(ledger, "reply", "once", typed="n\n", code=7)
    assert "git push origin main" in refused
    assert waiting(ledger) == {"call_41"}
    shown = on_a_terminal(ledger, "reply", "once", typed="y\n")
    assert "answer this request with `once`?" in shown
    assert waiting(ledger) == set()


def test_a_reply_without_an_id_needs_exactly_one_that_waits(ledger: CommandLine) -> None:
    assert "nothing is pending" in ledger("reply", "once", "--yes", code=9).err
    asked(ledger, call_41="git push", call_42="git pull")
    assert "more than one request is pending" in ledger("reply", "once", "--yes", code=12).err
    ledger("reply", "reject", "--session", "ses_call_42", "--message", "no", "--yes", code=0)
    ledger("reply", "once", "--yes", code=0)
    assert waiting(ledger) == set()


def test_words_choose_what_contains_all_of_them_and_nothing_else(ledger: CommandLine) -> None:
    asked(ledger, r1="git push origin a", r2="git push origin b", r3="git pull origin")
    rows = ledger("reply", "--matching", "Push ORIGIN", "once", "--yes", "--json", code=0).rows
    assert {row["request_id"] for row in rows} == {"r1", "r2"}
    assert waiting(ledger) == {"r3"}
    assert "no pending request contains `push`" in ledger("reply", "--matching", "push", "once", "--yes", code=9).err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["r1", "once", "--matching", "git"], "give requests or --matching, not both"),
        (
            ["once", "--matching", "git", "--digest", "0" * 64],
            "--digest, --round and --pattern are for one request that is named; not with --matching",
        ),
    ],
)
def test_a_choice_that_contradicts_itself_is_a_usage_error(ledger: CommandLine, words: list[str], error: str) -> None:
    assert f"error: {error}\n" in ledger("reply", *words, code=2).err


async def test_a_request_that_takes_the_place_of_the_one_shown_is_not_answered(ledger: CommandLine) -> None:
    async with Ledger.connect(ledger.url, entry_points=False) as opened:
        session = await opened.session("ses_1")
        await session.submit("bash", ["make"], request_id="call_41")
        (target,) = (await choices.named(opened, ["call_4"], None)).targets
        (shown,) = await opened.pending("ses_1")
        assert target.digest == shown_digest(shown.request)
        await session.cancel("call_41")
        await session.submit("bash", ["rm -rf ~"], request_id="call_42")
        assert target.request_id == "call_41", "the answer goes to what was shown"


def test_pending_with_a_request_prints_its_whole_card(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "git push", "--always", "git push *", "--id", "call_41", "--no-wait", code=7)
    for typed in ("call_41", "call"):
        card = ledger("pending", typed, code=0).out
        assert "request call_41 of session ses_1: bash" in card
        assert "an `always` would allow: `git push *`" in card
        assert "asked because no rule matches, and the default is ask" in card
    assert ledger("pending", "call_41", "--json", code=0).row["request_id"] == "call_41"
    ledger("reply", "call_41", "once", code=0)
    ran = ledger("pending", "call_41", code=0)
    assert ran.err == "info: request `call_41` is not pending any more\n"
    assert ran.out.startswith("allowed by ")
    ledger("pending", "call_99", code=9)
