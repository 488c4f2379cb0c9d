"""States of OpenCode's requests: asked, answered and withdrawn, in any order of events."""

from __future__ import annotations

import pytest

from workers.bridges.opencode.request_tracker import (
    AnswerRequest,
    CloseSession,
    JudgeRequest,
    LookAtSession,
    Note,
    OpencodeVerdict,
    RecordReply,
    RequestTracker,
    Tell,
    Withdraw,
)
from workers.bridges.opencode.shapes import (
    ReplyWord,
    RequestAsked,
    RequestReplied,
    SessionDeleted,
    SessionIdle,
    ShapeError,
    ToolEnded,
)

DIRECTORY = "/home/me/shop"
GHOST = "the agent was stopped while it waited"
GONE = "opencode no longer has it: its process ended, or it was answered there unseen"

ALLOWED = OpencodeVerdict("once")
REJECTED = OpencodeVerdict("reject")


def request(request_id: str = "per_1", session: str = "ses_1", call_id: str | None = None) -> RequestAsked:
    patterns = (f"echo {request_id}",)
    call_id = call_id or f"call_{request_id}"
    return RequestAsked(request_id, session, "bash", patterns, ("echo *",), {}, DIRECTORY, "msg_1", call_id)


@pytest.fixture
def tracker() -> RequestTracker:
    return RequestTracker()


def asked(tracker: RequestTracker, *requests: RequestAsked) -> None:
    for one in requests:
        assert tracker.happened(one) == [JudgeRequest(one)]


def replied(request_id: str, reply: ReplyWord, session: str = "ses_1") -> RequestReplied:
    return RequestReplied(session, request_id, reply)


# --- the plain course ------------------------------------------------------------------------------------------------


def test_a_request_is_judged_once_however_often_it_is_told_of(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.happened(request()) == []
    assert tracker.listed(DIRECTORY, [request()], {"ses_1"}, tracker.waiting) == []


def test_an_allow_is_answered_with_once_and_noted_when_the_tool_has_run(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.judged("per_1", ALLOWED) == [AnswerRequest(request(), "once")]
    assert tracker.answered("per_1", 200) == []
    assert tracker.happened(replied("per_1", "once")) == []
    ended = ToolEnded("ses_1", "call_per_1", ok=True, title="echo")
    assert tracker.happened(ended) == [Note("ses_1", "per_1", ok=True, title="echo")]
    assert tracker.happened(ended) == []


def test_a_refusal_is_answered_with_its_message(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.judged("per_1", OpencodeVerdict("reject", "use pnpm")) == [
        AnswerRequest(request(), "reject", "use pnpm")
    ]


def test_of_two_requests_of_one_call_the_last_is_what_ran(tracker: RequestTracker) -> None:
    folder, command = request("per_1", call_id="call_a"), request("per_2", call_id="call_a")
    for one in (folder, command):
        asked(tracker, one)
        tracker.judged(one.request_id, ALLOWED)
        tracker.happened(replied(one.request_id, "once"))
    ended = ToolEnded("ses_1", "call_a", ok=False, title=None)
    assert tracker.happened(ended) == [Note("ses_1", "per_2", ok=False, title=None)]


# --- answers given in OpenCode itself --------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "kept"), [("once", "once"), ("reject", "reject"), ("always", "session")])
def test_an_answer_of_somebody_else_is_recorded_and_remembered_no_longer_than_opencode_would(
    tracker: RequestTracker, said: ReplyWord, kept: str
) -> None:
    asked(tracker, request())
    assert tracker.happened(replied("per_1", said)) == [RecordReply("ses_1", "per_1", kept, said)]  # type: ignore[arg-type]
    assert tracker.judged("per_1", ALLOWED) == []


def test_what_an_always_released_besides_grants_nothing_of_its_own(tracker: RequestTracker) -> None:
    asked(tracker, request("per_1"), request("per_2"))
    tracker.happened(replied("per_1", "always"))
    assert tracker.happened(replied("per_2", "always")) == [RecordReply("ses_1", "per_2", "once", "always")]


def test_the_ledger_and_opencode_answering_alike_at_once_is_no_matter(tracker: RequestTracker) -> None:
    asked(tracker, request())
    tracker.judged("per_1", ALLOWED)
    assert tracker.happened(replied("per_1", "always")) == []
    assert tracker.answered("per_1", 404) == []


@pytest.mark.parametrize(("ours", "theirs"), [(ALLOWED, "reject"), (REJECTED, "once")])
def test_an_other_answer_in_opencode_that_was_first_is_told(
    tracker: RequestTracker, ours: OpencodeVerdict, theirs: ReplyWord
) -> None:
    asked(tracker, request())
    tracker.judged("per_1", ours)
    [told] = tracker.happened(replied("per_1", theirs))
    assert isinstance(told, Tell)
    assert "the ledger holds the other outcome" in told.text


# --- cascades --------------------------------------------------------------------------------------------------------


def test_what_opencode_rejects_because_of_our_reject_is_withdrawn(tracker: RequestTracker) -> None:
    asked(tracker, request("per_1"), request("per_2"), request("per_3", "ses_2"))
    tracker.judged("per_1", OpencodeVerdict("reject", "denied by rule"))
    tracker.happened(replied("per_1", "reject"))
    reason = "opencode refused it together with `per_1`"
    assert tracker.happened(replied("per_2", "reject")) == [Withdraw("ses_1", "per_2", "withdrawn", reason)]
    assert tracker.happened(replied("per_3", "reject", "ses_2")) == [RecordReply("ses_2", "per_3", "reject", "reject")]


def test_what_the_ledger_rejects_together_is_answered_once_and_opencode_draws_the_rest(tracker: RequestTracker) -> None:
    asked(tracker, request("per_1"), request("per_2"))
    assert tracker.judged("per_2", OpencodeVerdict("reject", None, "per_1")) == []
    assert tracker.judged("per_1", OpencodeVerdict("reject", "use pnpm")) == [
        AnswerRequest(request("per_1"), "reject", "use pnpm")
    ]
    assert tracker.answered("per_1", 200) == []
    assert tracker.happened(replied("per_1", "reject")) == []
    assert tracker.happened(replied("per_2", "reject")) == []
    assert tracker.waiting == frozenset()


def test_what_stood_behind_an_answer_that_was_not_taken_is_answered_itself(tracker: RequestTracker) -> None:
    asked(tracker, request("per_1"), request("per_2"))
    tracker.judged("per_2", OpencodeVerdict("reject", None, "per_1"))
    tracker.judged("per_1", REJECTED)
    assert tracker.answered("per_1", 404) == [AnswerRequest(request("per_2"), "reject")]


def test_a_reject_that_followed_one_of_another_session_is_answered_itself(tracker: RequestTracker) -> None:
    asked(tracker, request("per_1"), request("per_2", "ses_2"))
    assert tracker.judged("per_2", OpencodeVerdict("reject", None, "per_1")) == [
        AnswerRequest(request("per_2", "ses_2"), "reject")
    ]


# --- ghosts ----------------------------------------------------------------------------------------------------------


def test_a_request_whose_tool_call_ended_is_withdrawn_and_not_taken_up_again_from_the_list(
    tracker: RequestTracker,
) -> None:
    asked(tracker, request())
    aborted = ToolEnded("ses_1", "call_per_1", ok=False, title=None)
    assert tracker.happened(aborted) == [Withdraw("ses_1", "per_1", "asker_gave_up", GHOST)]
    assert tracker.judged("per_1", ALLOWED) == []
    assert tracker.listed(DIRECTORY, [request()], {"ses_1"}, tracker.waiting) == []


def test_a_session_at_rest_is_looked_at_before_its_requests_count_as_ghosts(tracker: RequestTracker) -> None:
    asked(tracker, request("per_1"))
    [look] = tracker.happened(SessionIdle("ses_1"))
    assert look == LookAtSession("ses_1", DIRECTORY, ("per_1",))
    asked(tracker, request("per_2"))
    assert tracker.found_idle(("per_1",)) == [Withdraw("ses_1", "per_1", "asker_gave_up", GHOST)]
    assert tracker.waiting == {"per_2"}


def test_a_listed_request_of_a_session_at_rest_is_a_ghost(tracker: RequestTracker) -> None:
    asked(tracker, request("per_1"))
    found = tracker.listed(DIRECTORY, [request("per_1"), request("per_2")], set(), tracker.waiting)
    assert found == [Withdraw("ses_1", "per_1", "asker_gave_up", GHOST)]
    assert tracker.waiting == frozenset()


def test_a_ghost_of_a_session_that_is_at_work_again_is_left_alone(tracker: RequestTracker) -> None:
    ghost, live = request("per_1"), request("per_2")
    found = tracker.listed(DIRECTORY, [ghost, live], {"ses_1"}, tracker.waiting, {"per_1"})
    assert found == [JudgeRequest(live)]


def test_what_the_ledger_knows_to_be_over_is_not_answered(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.judged("per_1", OpencodeVerdict("reject", "the agent gave up", nobody_waits=True)) == []
    assert tracker.waiting == frozenset()


def test_a_deleted_session_ends_its_requests_and_is_closed(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.happened(SessionDeleted("ses_1")) == [
        Withdraw("ses_1", "per_1", "asker_gave_up", GHOST),
        CloseSession("ses_1"),
    ]


# --- connections lost, and processes that end ------------------------------------------------------------------------


def test_what_is_not_listed_any_more_is_withdrawn_as_its_asker_s_death(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.listed(DIRECTORY, [], set(), tracker.waiting) == [Withdraw("ses_1", "per_1", "asker_died", GONE)]


def test_what_was_asked_after_the_list_was_is_not_missed_in_it(tracker: RequestTracker) -> None:
    before = tracker.waiting
    asked(tracker, request())
    assert tracker.listed(DIRECTORY, [], {"ses_1"}, before) == []
    assert tracker.waiting == {"per_1"}


def test_another_directory_s_list_says_nothing_of_a_request(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.listed("/elsewhere", [], set(), tracker.waiting) == []


def test_what_is_listed_and_not_known_is_judged(tracker: RequestTracker) -> None:
    assert tracker.listed(DIRECTORY, [request()], None, tracker.waiting) == [JudgeRequest(request())]


def test_an_answer_that_could_not_be_brought_is_brought_again_when_it_is_still_listed(tracker: RequestTracker) -> None:
    asked(tracker, request())
    tracker.judged("per_1", ALLOWED)
    assert tracker.answered("per_1", None) == []
    assert tracker.listed(DIRECTORY, [request()], {"ses_1"}, tracker.waiting) == [AnswerRequest(request(), "once")]


def test_an_answer_that_could_not_be_brought_is_forgotten_when_its_request_is_gone(tracker: RequestTracker) -> None:
    asked(tracker, request())
    tracker.judged("per_1", ALLOWED)
    tracker.answered("per_1", None)
    assert tracker.listed(DIRECTORY, [], set(), tracker.waiting) == []
    assert tracker.waiting == frozenset()


def test_when_nothing_listens_any_more_everything_ends_and_what_comes_back_is_refused(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.died() == [Withdraw("ses_1", "per_1", "asker_died", GONE)]
    [refused] = tracker.listed(DIRECTORY, [request()], {"ses_1"}, tracker.waiting)
    assert refused == AnswerRequest(request(), "reject", "the request was withdrawn while opencode was away; ask again")


def test_what_an_earlier_bridge_left_pending_ends_unless_opencode_still_waits_for_it(tracker: RequestTracker) -> None:
    asked(tracker, request("per_1"))
    assert tracker.left_over("ses_1", "per_1") == []
    assert tracker.left_over("ses_1", "per_0") == [
        Withdraw("ses_1", "per_0", "asker_died", "opencode no longer has it")
    ]


# --- fail closed -----------------------------------------------------------------------------------------------------


def test_nobody_to_ask_is_a_reject_and_what_may_have_been_written_is_withdrawn(tracker: RequestTracker) -> None:
    asked(tracker, request())
    assert tracker.refused("per_1", "denied, because nobody could be asked", may_be_pending=True) == [
        AnswerRequest(request(), "reject", "denied, because nobody could be asked"),
        Withdraw("ses_1", "per_1", "asker_gave_up", "the bridge could not reach the gateway, and refused it"),
    ]


def test_a_request_that_cannot_be_read_is_refused_where_it_can_be_named(tracker: RequestTracker) -> None:
    told, answer = tracker.misread(ShapeError("its patterns is no list", "ses_1", "per_1"), DIRECTORY)
    assert isinstance(told, Tell)
    unread = RequestAsked("per_1", "ses_1", "?", (), (), {}, DIRECTORY)
    assert answer == AnswerRequest(unread, "reject", "cannot be judged: its patterns is no list")
    assert [type(one) for one in tracker.misread(ShapeError("no object"), DIRECTORY)] == [Tell]
