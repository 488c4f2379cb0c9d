"""Replies: the first valid reply wins, once; all later ones get an error."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ledger import (
    AlreadyAnsweredError,
    DigestMismatchError,
    InputError,
    Ledger,
    StaleReplyError,
    Timeouts,
    UnknownRequestError,
)
from ledger.core.policy import ReplyKind
from ledger.core.requests import ReplyWord
from ledger.testing import TestClock
from tests.api.actors import (
    ANN,
    BOB,
    OpenLedger,
    ask_and_wait,
    before_the_next_append,
    events_of,
    outcome_of,
    pend,
    pending_ids,
    raised,
)


async def test_of_many_replies_at_once_one_wins_and_every_other_is_told(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1")
    asking = await ask_and_wait(session, "call_1")
    people = [await (await open_ledger(actor=f"person-{number}")).attach("ses_1") for number in range(4)]
    replies: list[ReplyKind] = ["once", "reject", "always", "session"]
    answers = await asyncio.gather(
        *(one.reply("call_1", reply) for one, reply in zip(people, replies, strict=True)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, AlreadyAnsweredError)]
    assert len(refused) == len(people) - 1
    [winner] = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert {(error.data["by"], error.data["reply"], error.data["outcome"]) for error in refused} == {
        (winner.by.name, winner.reply, winner.outcome)
    }
    assert await events_of(session) == ["session_opened", "asked", "replied"]
    [told] = await asyncio.gather(asking, return_exceptions=True)
    assert (winner.outcome == "allowed") == (not isinstance(told, BaseException))


@pytest.mark.parametrize("reply", ["once", "session", "always", "reject"])
async def test_the_same_reply_again_succeeds_and_writes_nothing(
    ledger: Ledger, open_ledger: OpenLedger, reply: ReplyKind, caplog: pytest.LogCaptureFixture
) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push", always=["git push *"])
    first = await session.reply("call_1", reply, actor=ANN)
    before = await events_of(session)
    with caplog.at_level(logging.INFO, "ledger"):
        again = await (await (await open_ledger()).attach("ses_1")).reply("call_1", reply, actor=BOB)
    assert again.as_json() == first.as_json()
    assert await events_of(session) == before
    assert "Ignoring duplicate PermissionResponse for call_1 of session ses_1" in caplog.messages


async def test_another_reply_is_told_what_won_and_who_gave_it_and_when(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    clock.advance("5s")
    await session.reply("call_1", "once", actor=ANN)
    clock.advance("5s")
    error = await raised(session.reply("call_1", "reject", actor=BOB))
    assert isinstance(error, AlreadyAnsweredError)
    assert (error.text, error.code) == ("request `call_1` was already allowed by ann (once)", "ALREADY_ANSWERED")
    assert error.data == {
        "request_id": "call_1",
        "session": "ses_1",
        "outcome": "allowed",
        "reply": "once",
        "by": "ann",
        "at_ms": clock.now_ms() - 5000,
        "message": None,
    }


async def test_a_rejection_with_other_feedback_is_another_reply(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    await session.reply("call_1", "reject", actor=ANN, message="use a branch")
    assert (await session.reply("call_1", "reject", message="use a branch")).outcome == "corrected"
    error = await raised(session.reply("call_1", "reject", message="never"))
    assert (error.code, error.data["message"]) == ("ALREADY_ANSWERED", "use a branch")


async def test_a_call_that_rules_decided_cannot_be_answered(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=[{"permission": "read", "pattern": "*", "action": "allow"}])
    await session.ask("read", ["a"], request_id="call_1")
    assert (await raised(session.reply("call_1", "reject"))).code == "ALREADY_ANSWERED"


async def test_a_reply_after_the_deadline_is_stale_though_no_worker_wrote_the_expiry(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(unattended=10))
    await pend(session, "call_1")
    clock.advance("10s")
    error = await raised(session.reply("call_1", "once", actor=ANN))
    assert isinstance(error, StaleReplyError)
    assert (error.code, error.text) == ("PERMISSION_STALE", "Permission request expired")
    assert await events_of(session) == ["session_opened", "asked", "expired"]


async def test_a_reply_in_the_last_millisecond_counts(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(unattended=10))
    await pend(session, "call_1")
    clock.advance(9_999)
    assert (await session.reply("call_1", "once")).outcome == "allowed"


async def test_a_reply_whose_writer_believes_it_is_in_time_is_refused_by_the_servers_clock(
    url: str, ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(unattended=10))
    await pend(session, "call_1")

    # Moved between the reply's decision and its append: the append's window decides.
    async def late() -> None:
        clock.advance("10s")

    before_the_next_append(ledger, late)
    assert (await raised(session.reply("call_1", "once"))).code == "PERMISSION_STALE"
    assert await events_of(session) == ["session_opened", "asked", "expired"]


async def test_a_reply_to_an_unknown_request_is_an_error(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    error = await raised(session.reply("call_9", "once"))
    assert isinstance(error, UnknownRequestError)
    assert (error.code, error.text) == ("UNKNOWN_REQUEST", "session `ses_1` has no request `call_9`")
    elsewhere = await raised(ledger.reply("call_9", "once"))
    assert (elsewhere.code, elsewhere.text) == ("UNKNOWN_REQUEST", "no session has a request `call_9`")
    assert await events_of(session) == ["session_opened"]


@pytest.mark.parametrize("word", ["yes", "ONCE", "allow", "", "once ", 1, None])
async def test_an_invalid_reply_value_is_refused_and_the_request_stays_pending(ledger: Ledger, word: object) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    error = await raised(session.reply("call_1", word))  # type: ignore[arg-type]
    assert isinstance(error, InputError)
    assert error.text == f"`{word}` is not a reply; use `once`, `session`, `always` or `reject`"
    assert await pending_ids(session) == ["call_1"]


@pytest.mark.parametrize(
    ("word", "reply", "outcome"),
    [
        ("ALLOW_ONCE", "once", "allowed"),
        ("ALLOW_SESSION", "session", "allowed"),
        ("DENY", "reject", "rejected"),
    ],
)
async def test_the_names_of_betcode_are_taken_as_replies(
    ledger: Ledger, word: ReplyWord, reply: str, outcome: str
) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", always=["git push *"])
    result = await session.reply("call_1", word)
    assert (result.reply, result.outcome) == (reply, outcome)


async def test_a_reply_that_carries_a_digest_counts_only_for_what_was_shown(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "git push")
    [shown] = await session.pending()
    error = await raised(session.reply("call_1", "once", digest="0" * 64))
    assert isinstance(error, DigestMismatchError)
    assert await pending_ids(session) == ["call_1"]
    assert (await session.reply("call_1", "once", digest=shown.request.digest)).outcome == "allowed"


async def test_an_empty_always_list_makes_always_the_same_as_once_and_the_answer_says_so(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1")
    result = await session.reply("call_1", "always")
    assert (result.outcome, await session.approved()) == ("allowed", [])
    assert result.message == "nothing is remembered: the request offers no pattern to grant, so always counts as once"


async def test_once_is_remembered_nowhere(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "git push", always=["git push *"])
    await session.reply("call_1", "once")
    await pend(session, "call_2", "git push", always=["git push *"])
    assert await outcome_of(session, "call_2") is None


async def test_who_waits_is_told_of_an_expiry_without_any_worker(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(unattended=2 * 86_400))
    asking = await ask_and_wait(session, "call_1")
    clock.advance("2d")
    error = await raised(asking)
    assert (error.code, error.agent, error.text) == (
        "EXPIRED",
        "continue",
        "Permission request expired after 2 days.",
    )


async def test_none_means_that_a_request_never_expires(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(attended=None, unattended=None, cap=None))
    await pend(session, "call_1")
    clock.advance("3000d")
    [waiting] = await session.pending()
    assert waiting.as_json()["deadline"] is None
    assert [one.session for one in await ledger.pending()] == ["ses_1"]
    assert (await session.reply("call_1", "once")).outcome == "allowed"


async def test_a_result_is_shown_in_a_line_without_its_request(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", metadata={"words": "x" * 2000})
    result = await session.reply("call_1", "once", actor=ANN)
    assert repr(result) == (
        f"Result(session='ses_1', request_id='call_1', version=3, outcome='allowed', reply='once', by='ann', "
        f"at='{result.at}')"
    )
