"""Effects of one answer on the session's other requests (opencode-zh.md 6.2 and 6.3)."""

from __future__ import annotations

import pytest

from ledger.core.events import (
    CascadeReject,
    Cause,
    Granted,
    GrantedDetail,
    Opinion,
    Replied,
    RepliedDetail,
    Settings,
)
from ledger.core.grants import derived_grant_id
from ledger.core.policy import ReplyKind
from ledger.policy import Verdict
from tests.support.commands import ANN, asks, connects, grants, opens, replies, revokes
from tests.support.scenario import T0, Scenario, given, later, ms

BY_FIRST = Cause(kind="cascade", request_id="per_1")
GRANT = derived_grant_id("ses_1", "per_1", 0)


def rejected(request_id: str, cause: Cause | None = None) -> Replied:
    return Replied(request_id=request_id, reply="reject", outcome="rejected", cause=cause)


def released(request_id: str, reply: ReplyKind = "always") -> Replied:
    return Replied(request_id=request_id, reply=reply, outcome="allowed", cause=BY_FIRST)


def approved(pattern: str, reply: ReplyKind = "always") -> tuple[Replied, Granted]:
    return (
        Replied(
            request_id="per_1",
            reply=reply,
            outcome="allowed",
            scope="session",
            grants=(GRANT,),
            detail=RepliedDetail(None, (pattern,)),
        ),
        Granted(
            grant_id=GRANT,
            permission="bash",
            scope="session",
            session="ses_1",
            request_id="per_1",
            detail=GrantedDetail(pattern),
        ),
    )


def three_wait(cascade_reject: CascadeReject) -> Scenario:
    return given(
        opens(settings=Settings(cascade_reject=cascade_reject)),
        asks("per_1", "ls", message_id="msg_1"),
        asks("per_2", "pwd", message_id="msg_2"),
        asks("per_3", "date", message_id="msg_1"),
        asks("per_4", "who"),
    )


def test_a_reject_ends_the_sessions_other_requests_in_order_of_asking() -> None:
    scenario = (
        three_wait("session")
        .when(replies("per_1", "reject"))
        .then(rejected("per_1"), rejected("per_2", BY_FIRST), rejected("per_3", BY_FIRST), rejected("per_4", BY_FIRST))
    )
    assert scenario.waiting() == []


def test_the_feedback_is_for_the_first_only_the_others_are_rejected_without() -> None:
    scenario = three_wait("session").given(replies("per_3", "reject", message="use pnpm"))
    outcomes = [scenario.result(f"per_{number}").outcome for number in (1, 2, 3, 4)]
    assert outcomes == ["rejected", "rejected", "corrected", "rejected"]
    assert scenario.result("per_1").message == "The user rejected permission to use this specific tool call."
    assert scenario.result("per_1").agent == "stop"


def test_with_siblings_only_the_tool_calls_of_the_same_message_fall() -> None:
    scenario = (
        three_wait("siblings").when(replies("per_1", "reject")).then(rejected("per_1"), rejected("per_3", BY_FIRST))
    )
    assert scenario.waiting() == ["per_2", "per_4"]


def test_a_request_without_a_message_has_no_siblings() -> None:
    three_wait("siblings").given(asks("per_5", "id")).when(replies("per_4", "reject")).then(rejected("per_4"))


def test_with_none_a_reject_ends_one_request_alone() -> None:
    scenario = three_wait("none").when(replies("per_1", "reject")).then(rejected("per_1"))
    assert scenario.waiting() == ["per_2", "per_3", "per_4"]


def test_what_was_settled_before_is_not_rejected_again() -> None:
    three_wait("session").given(replies("per_2", "once"), replies("per_4", "once")).when(
        replies("per_1", "reject")
    ).then(rejected("per_1"), rejected("per_3", BY_FIRST))


def test_the_same_words_to_a_cascaded_reject_are_the_same_reply() -> None:
    three_wait("session").given(replies("per_1", "reject")).when(replies("per_2", "reject")).then_nothing_happens()


def test_who_rejected_the_first_rejected_them_all() -> None:
    scenario = three_wait("session").given(replies("per_1", "reject"))
    assert {settled.by for settled in scenario.state.settled.values()} == {ANN}


def test_always_releases_what_rules_and_grants_together_now_allow() -> None:
    scenario = given(
        opens({"bash": {"ls *": "allow"}}),
        asks("per_1", "git push", always=("git *",)),
        asks("per_2", "git pull"),
        asks("per_3", "git pull", "ls -l"),
        asks("per_4", "git pull", "npm test"),
        asks("per_5", "git pull", permission="edit"),
    )
    scenario.when(replies("per_1", "always")).then(*approved("git *"), released("per_2"), released("per_3"))
    assert scenario.waiting() == ["per_4", "per_5"]


def test_always_with_compat_v1_releases_what_the_grants_alone_allow() -> None:
    scenario = given(
        opens({"bash": {"ls *": "allow"}}, compat="v1"),
        asks("per_1", "git push", always=("git *",)),
        asks("per_2", "git pull"),
        asks("per_3", "git pull", "ls -l"),
    )
    scenario.when(replies("per_1", "always")).then(*approved("git *"), released("per_2"))
    assert scenario.waiting() == ["per_3"]


def test_with_compat_v1_grants_made_one_by_one_release_a_compound_request_together() -> None:
    given(
        opens(compat="v1"),
        grants("grn_1", "bash", "ls *"),
        asks("per_1", "git push", always=("git *",)),
        asks("per_2", "git pull", "ls -l"),
    ).when(replies("per_1", "always")).then(*approved("git *"), released("per_2"))


def test_session_releases_too_and_says_session() -> None:
    given(opens(), asks("per_1", "git push", always=("git *",)), asks("per_2", "git pull")).when(
        replies("per_1", "session")
    ).then(*approved("git *", "session"), released("per_2", "session"))


def test_once_releases_nothing() -> None:
    scenario = given(opens(), asks("per_1", "git push", always=("git *",)), asks("per_2", "git push"))
    scenario.given(replies("per_1", "once"))
    assert scenario.waiting() == ["per_2"]


def test_always_with_nothing_to_remember_releases_nothing() -> None:
    scenario = given(opens(), asks("per_1", "git push"), asks("per_2", "git push"), replies("per_1", "always"))
    assert scenario.waiting() == ["per_2"]


def test_what_a_decider_wants_a_person_to_see_is_not_released() -> None:
    careful = (Opinion("careful", Verdict.ASK, "look"),)
    scenario = given(opens(), asks("per_1", "git push", always=("git *",)), asks("per_2", "git pull", opinions=careful))
    scenario.when(replies("per_1", "always")).then(*approved("git *"))
    assert scenario.waiting() == ["per_2"]


def test_a_grant_revoked_since_the_ask_does_not_help_to_release() -> None:
    scenario = given(
        opens(),
        grants("grn_1", "bash", "ls *"),
        asks("per_1", "git push", always=("git *",)),
        asks("per_2", "git pull", "ls -l"),
        revokes("grn_1"),
    )
    scenario.when(replies("per_1", "always")).then(*approved("git *"))
    assert scenario.waiting() == ["per_2"]


def test_a_grant_expired_since_the_ask_does_not_help_to_release() -> None:
    scenario = given(
        opens(),
        grants("grn_1", "bash", "ls *", expires_in_ms=ms("1h")),
        asks("per_1", "git push", always=("git *",)),
        asks("per_2", "git pull", "ls -l"),
        later("1h"),
    )
    scenario.when(replies("per_1", "always")).then(*approved("git *"))
    assert scenario.waiting() == ["per_2"]


def test_a_release_that_rests_on_an_expiring_grant_must_be_written_before_it_ends() -> None:
    scenario = given(
        opens(),
        grants("grn_1", "bash", "ls *", expires_in_ms=ms("1h")),
        asks("per_1", "git push", always=("git *",)),
        asks("per_2", "git pull", "ls -l"),
    )
    assert scenario.decision(replies("per_1", "always")).not_after_ms == T0 + ms("1h") - 1
    assert scenario.decision(replies("per_1", "once")).not_after_ms is None


def test_what_expired_in_the_meantime_is_not_released() -> None:
    given(
        opens(),
        connects("phone"),
        asks("per_2", "git pull"),
        later("30s"),
        asks("per_1", "git push", always=("git *",)),
        later("30s"),
    ).when(replies("per_1", "always")).then(*approved("git *"))


@pytest.mark.parametrize("reply", ["always", "reject"])
def test_a_cascade_leaves_in_one_append_so_nobody_sees_half_of_it(reply: ReplyKind) -> None:
    scenario = given(opens(), asks("per_1", "ls", always=("*",)), asks("per_2", "ls"), later("1s"))
    scenario.given(replies("per_1", reply))
    assert {entry.ms for entry in scenario.entries[3:]} == {T0 + 1000}
