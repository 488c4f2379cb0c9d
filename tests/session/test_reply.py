"""Replies: once, session, always, reject. Their effects on other requests are in test_cascades."""

from __future__ import annotations

import pytest

from ledger.core.errors import AlreadyAnsweredError, DigestMismatchError, StaleReplyError, UnknownRequestError
from ledger.core.events import Granted, GrantedDetail, Replied, RepliedDetail
from ledger.core.grants import derived_grant_id
from ledger.core.policy import ReplyKind
from tests.support.commands import ANN, BOB, asks, cancels, closes, connects, opens, replies
from tests.support.salts import recorded_digest
from tests.support.scenario import T0, Project, Scenario, given, later, ms

FIRST, SECOND = (derived_grant_id("ses_1", "per_1", index) for index in range(2))


def asked(*always: str) -> Scenario:
    return given(opens(), asks("per_1", "git push", always=always))


def test_once_allows_this_call_and_remembers_nothing() -> None:
    scenario = (
        asked("git *").when(replies("per_1", "once")).then(Replied(request_id="per_1", reply="once", outcome="allowed"))
    )
    result = scenario.result("per_1")
    assert (result.outcome, result.reply, result.by, result.message) == ("allowed", "once", ANN, None)
    scenario.given(asks("per_2", "git push"))
    assert scenario.waiting() == ["per_2"]


def test_session_grants_the_always_entries_to_this_session() -> None:
    scenario = (
        asked("git push *", "git *")
        .when(replies("per_1", "session", message="fine"))
        .then(
            Replied(
                request_id="per_1",
                reply="session",
                outcome="allowed",
                scope="session",
                grants=(FIRST, SECOND),
                detail=RepliedDetail("fine", ("git push *", "git *")),
            ),
            _granted(FIRST, "git push *"),
            _granted(SECOND, "git *"),
        )
    )
    scenario.given(asks("per_2", "git commit"))
    assert scenario.result("per_2").outcome == "allowed"


def _granted(grant_id: str, pattern: str) -> Granted:
    return Granted(
        grant_id=grant_id,
        permission="bash",
        scope="session",
        session="ses_1",
        request_id="per_1",
        detail=GrantedDetail(pattern),
    )


def test_session_keeps_to_the_session_where_there_is_a_project() -> None:
    project = Project("shop")
    given(opens(project="shop"), asks("per_1", "git push", always=("git *",)), project=project).when(
        replies("per_1", "session")
    ).then(
        Replied(
            request_id="per_1",
            reply="session",
            outcome="allowed",
            scope="session",
            grants=(FIRST,),
            detail=RepliedDetail(None, ("git *",)),
        ),
        _granted(FIRST, "git *"),
    )
    assert project.state.version == 0


def test_always_in_a_session_without_a_project_is_granted_to_the_session() -> None:
    asked("git *").when(replies("per_1", "always")).then(
        Replied(
            request_id="per_1",
            reply="always",
            outcome="allowed",
            scope="session",
            grants=(FIRST,),
            detail=RepliedDetail(None, ("git *",)),
        ),
        _granted(FIRST, "git *"),
    )


@pytest.mark.parametrize("dialect", ["brutus", "betcode"])
def test_always_keeps_to_the_session_in_dialects_that_approve_by_session(dialect: str) -> None:
    scenario = given(
        opens(project="shop", dialect=dialect),
        asks("per_1", "git push", always=("git *",)),
        replies("per_1", "always"),
        project=Project("shop"),
    )
    assert scenario.state.grants[FIRST].scope == "session"
    assert not scenario.state.settled["per_1"].granted_to_project


def test_an_entry_that_stands_twice_in_always_is_granted_once() -> None:
    assert list(asked("git *", "git *").given(replies("per_1", "always")).state.grants) == [FIRST]


@pytest.mark.parametrize("reply", ["session", "always"])
def test_with_nothing_to_remember_always_counts_as_once_and_the_answer_says_so(reply: ReplyKind) -> None:
    scenario = asked().when(replies("per_1", reply)).then(Replied(request_id="per_1", reply=reply, outcome="allowed"))
    assert scenario.result("per_1").message == (
        f"nothing is remembered: the request offers no pattern to grant, so {reply} counts as once"
    )


def test_reject_stops_the_agent_with_the_words_of_opencode() -> None:
    scenario = (
        asked().when(replies("per_1", "reject")).then(Replied(request_id="per_1", reply="reject", outcome="rejected"))
    )
    result = scenario.result("per_1")
    assert (result.outcome, result.agent, result.code) == ("rejected", "stop", "REJECTED")
    assert result.message == "The user rejected permission to use this specific tool call."


def test_reject_with_feedback_corrects_the_agent_which_goes_on() -> None:
    scenario = (
        asked()
        .when(replies("per_1", "reject", message="use pnpm"))
        .then(Replied(request_id="per_1", reply="reject", outcome="corrected", detail=RepliedDetail("use pnpm")))
    )
    result = scenario.result("per_1")
    assert (result.outcome, result.agent, result.code) == ("corrected", "continue", "CORRECTED")
    assert result.message == (
        "The user rejected permission to use this specific tool call with the following feedback: use pnpm"
    )


def test_an_empty_feedback_is_none() -> None:
    asked().when(replies("per_1", "reject", message="")).then(
        Replied(request_id="per_1", reply="reject", outcome="rejected")
    )


@pytest.mark.parametrize("reply", ["once", "session", "always", "reject"])
def test_the_same_reply_again_succeeds_and_writes_nothing(reply: ReplyKind) -> None:
    scenario = asked("git *").given(replies("per_1", reply), later("1d"))
    scenario.when(replies("per_1", reply, by=BOB)).then_nothing_happens()
    assert scenario.result("per_1").by == ANN


def test_another_reply_is_told_who_won_when_and_how() -> None:
    asked().given(later("5s"), replies("per_1", "once"), later("5s")).when(
        replies("per_1", "reject", by=BOB)
    ).then_refused(
        AlreadyAnsweredError,
        "ALREADY_ANSWERED",
        contains="request `per_1` was already allowed by ann (once)",
        request_id="per_1",
        session="ses_1",
        outcome="allowed",
        reply="once",
        by="ann",
        at_ms=T0 + ms("5s"),
        message=None,
    )


def test_a_reject_with_another_feedback_is_another_reply() -> None:
    asked().given(replies("per_1", "reject", message="use pnpm")).when(
        replies("per_1", "reject", message="use yarn")
    ).then_refused(AlreadyAnsweredError, "ALREADY_ANSWERED", message="use pnpm")


def test_what_rules_decided_takes_no_reply() -> None:
    given(opens({"bash": "deny"}), asks("per_1", "ls")).when(replies("per_1", "once")).then_refused(
        AlreadyAnsweredError, "ALREADY_ANSWERED", outcome="denied", reply=None
    )


def test_what_was_cancelled_takes_no_reply() -> None:
    asked().given(cancels("per_1")).when(replies("per_1", "once")).then_refused(
        AlreadyAnsweredError, "ALREADY_ANSWERED", outcome="cancelled"
    )


def test_a_reply_in_the_last_millisecond_counts() -> None:
    given(opens(), connects("phone"), asks("per_1", "ls")).when(replies("per_1", "once"), now=T0 + ms("60s") - 1).then(
        Replied(request_id="per_1", reply="once", outcome="allowed")
    )


def test_a_reply_at_the_deadline_is_stale_although_no_worker_has_written_the_expiry() -> None:
    scenario = given(opens(), connects("phone"), asks("per_1", "ls"))
    scenario.when(replies("per_1", "once"), now=T0 + ms("60s")).then_refused(
        StaleReplyError, "PERMISSION_STALE", contains="Permission request expired", request_id="per_1"
    )
    assert scenario.result("per_1").outcome == "expired"


def test_a_reply_to_an_expired_request_is_stale_every_time() -> None:
    scenario = given(opens(), connects("phone"), asks("per_1", "ls"), later("70s"))
    for _ in range(2):
        scenario.when(replies("per_1", "once")).then_refused(StaleReplyError, "PERMISSION_STALE")


def test_an_unknown_id_is_an_error_never_a_silent_yes() -> None:
    asked().when(replies("per_2", "once")).then_refused(
        UnknownRequestError,
        "UNKNOWN_REQUEST",
        contains="session `ses_1` has no request `per_2`",
        request_id="per_2",
        session="ses_1",
    )


def test_a_reply_that_carries_the_digest_of_what_was_shown_counts_for_that() -> None:
    shown = recorded_digest(asks("per_1", "git push"))
    asked().when(replies("per_1", "once", shown=shown)).then(
        Replied(request_id="per_1", reply="once", outcome="allowed")
    )


def test_a_reply_to_something_else_than_what_waits_is_refused_and_the_request_waits_on() -> None:
    scenario = (
        asked()
        .when(replies("per_1", "once", shown="f" * 64))
        .then_refused(DigestMismatchError, "DIGEST_MISMATCH", contains="look at it again", request_id="per_1")
    )
    assert scenario.waiting() == ["per_1"]


def test_a_reply_names_the_client_it_came_from() -> None:
    given(opens(), connects("phone"), asks("per_1", "ls")).when(replies("per_1", "once", client="phone")).then(
        Replied(request_id="per_1", reply="once", outcome="allowed", client_id="phone")
    )


def test_anyone_may_answer_by_default_connected_or_not() -> None:
    asked().when(replies("per_1", "once", client="unheard of")).then(
        Replied(request_id="per_1", reply="once", outcome="allowed", client_id="unheard of")
    )


def test_a_reply_in_a_closed_session_finds_the_request_cancelled() -> None:
    asked().given(closes()).when(replies("per_1", "once")).then_refused(
        AlreadyAnsweredError, "ALREADY_ANSWERED", outcome="cancelled"
    )


def test_an_always_that_is_told_is_granted_to_the_session_in_every_project() -> None:
    happened = given(opens(project="shop"), asks("per_1", "git push", always=("git push *",)))
    happened.when(replies("per_1", "always", told="editor")).then(
        Replied(
            request_id="per_1",
            reply="session",
            outcome="allowed",
            scope="session",
            grants=(FIRST,),
            told="editor",
            detail=RepliedDetail(None, ("git push *",)),
        ),
        _granted(FIRST, "git push *"),
    )
    happened.when(replies("per_1", "always", told="editor")).then()
