"""States of OpenCode's requests: asked, answered and withdrawn, in any order of events."""

from __future__ import annotations

import pytest

from workers.bridges.opencode.actions import Answer, CloseSession, Judge, LookAtSession, Note, Record, Tell, Withdraw
from workers.bridges.opencode.desk import Desk
from workers.bridges.opencode.shapes import (
    Asked,
    Replied,
    ReplyWord,
    SessionDeleted,
    SessionIdle,
    ShapeError,
    ToolEnded,
)
from workers.bridges.opencode.verdicts import Verdict

DIRECTORY = "/home/me/shop"
GHOST = "the agent was stopped while it waited"
GONE = "opencode does not have it any more: its process ended, or it was answered there unseen"

ALLOWED = Verdict("once")
REJECTED = Verdict("reject")


def request(request_id: str = "per_1", session: str = "ses_1", call_id: str | None = None) -> Asked:
    patterns = (f"echo {request_id}",)
    call_id = call_id or f"call_{request_id}"
    return Asked(request_id, session, "bash", patterns, ("echo *",), {}, DIRECTORY, "msg_1", call_id)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def asked(desk: Desk, *requests: Asked) -> None:
    for one in requests:
        assert desk.happened(one) == [Judge(one)]


def replied(request_id: str, reply: ReplyWord, session: str = "ses_1") -> Replied:
    return Replied(session, request_id, reply)


# --- the plain course ------------------------------------------------------------------------------------------------


def test_a_request_is_judged_once_however_often_it_is_told_of(desk: Desk) -> None:
    asked(desk, request())
    assert desk.happened(request()) == []
    assert desk.listed(DIRECTORY, [request()], {"ses_1"}, desk.waiting) == []


def test_an_allow_is_answered_with_once_and_noted_when_the_tool_has_run(desk: Desk) -> None:
    asked(desk, request())
    assert desk.judged("per_1", ALLOWED) == [Answer(request(), "once")]
    assert desk.answered("per_1", 200) == []
    assert desk.happened(replied("per_1", "once")) == []
    ended = ToolEnded("ses_1", "call_per_1", ok=True, title="echo")
    assert desk.happened(ended) == [Note("ses_1", "per_1", ok=True, title="echo")]
    assert desk.happened(ended) == []


def test_a_refusal_is_answered_with_its_message(desk: Desk) -> None:
    asked(desk, request())
    assert desk.judged("per_1", Verdict("reject", "use pnpm")) == [Answer(request(), "reject", "use pnpm")]


def test_of_two_requests_of_one_call_the_last_is_what_ran(desk: Desk) -> None:
    folder, command = request("per_1", call_id="call_a"), request("per_2", call_id="call_a")
    for one in (folder, command):
        asked(desk, one)
        desk.judged(one.request_id, ALLOWED)
        desk.happened(replied(one.request_id, "once"))
    ended = ToolEnded("ses_1", "call_a", ok=False, title=None)
    assert desk.happened(ended) == [Note("ses_1", "per_2", ok=False, title=None)]


# --- answers given in OpenCode itself --------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "kept"), [("once", "once"), ("reject", "reject"), ("always", "session")])
def test_an_answer_of_somebody_else_is_recorded_and_remembered_no_longer_than_opencode_would(
    desk: Desk, said: ReplyWord, kept: str
) -> None:
    asked(desk, request())
    assert desk.happened(replied("per_1", said)) == [Record("ses_1", "per_1", kept, said)]  # type: ignore[arg-type]
    assert desk.judged("per_1", ALLOWED) == []


def test_what_an_always_released_besides_grants_nothing_of_its_own(desk: Desk) -> None:
    asked(desk, request("per_1"), request("per_2"))
    desk.happened(replied("per_1", "always"))
    assert desk.happened(replied("per_2", "always")) == [Record("ses_1", "per_2", "once", "always")]


def test_the_ledger_and_opencode_answering_alike_at_once_is_no_matter(desk: Desk) -> None:
    asked(desk, request())
    desk.judged("per_1", ALLOWED)
    assert desk.happened(replied("per_1", "always")) == []
    assert desk.answered("per_1", 404) == []


@pytest.mark.parametrize(("ours", "theirs"), [(ALLOWED, "reject"), (REJECTED, "once")])
def test_an_other_answer_in_opencode_that_was_first_is_told(desk: Desk, ours: Verdict, theirs: ReplyWord) -> None:
    asked(desk, request())
    desk.judged("per_1", ours)
    [told] = desk.happened(replied("per_1", theirs))
    assert isinstance(told, Tell)
    assert "the ledger holds the other outcome" in told.text


# --- cascades --------------------------------------------------------------------------------------------------------


def test_what_opencode_rejects_because_of_our_reject_is_withdrawn(desk: Desk) -> None:
    asked(desk, request("per_1"), request("per_2"), request("per_3", "ses_2"))
    desk.judged("per_1", Verdict("reject", "denied by rule"))
    desk.happened(replied("per_1", "reject"))
    reason = "opencode refused it together with `per_1`"
    assert desk.happened(replied("per_2", "reject")) == [Withdraw("ses_1", "per_2", "withdrawn", reason)]
    assert desk.happened(replied("per_3", "reject", "ses_2")) == [Record("ses_2", "per_3", "reject", "reject")]


def test_what_the_ledger_rejects_together_is_answered_once_and_opencode_draws_the_rest(desk: Desk) -> None:
    asked(desk, request("per_1"), request("per_2"))
    assert desk.judged("per_2", Verdict("reject", None, "per_1")) == []
    assert desk.judged("per_1", Verdict("reject", "use pnpm")) == [Answer(request("per_1"), "reject", "use pnpm")]
    assert desk.answered("per_1", 200) == []
    assert desk.happened(replied("per_1", "reject")) == []
    assert desk.happened(replied("per_2", "reject")) == []
    assert desk.waiting == frozenset()


def test_what_stood_behind_an_answer_that_was_not_taken_is_answered_itself(desk: Desk) -> None:
    asked(desk, request("per_1"), request("per_2"))
    desk.judged("per_2", Verdict("reject", None, "per_1"))
    desk.judged("per_1", REJECTED)
    assert desk.answered("per_1", 404) == [Answer(request("per_2"), "reject")]


def test_a_reject_that_followed_one_of_another_session_is_answered_itself(desk: Desk) -> None:
    asked(desk, request("per_1"), request("per_2", "ses_2"))
    assert desk.judged("per_2", Verdict("reject", None, "per_1")) == [Answer(request("per_2", "ses_2"), "reject")]


# --- ghosts ----------------------------------------------------------------------------------------------------------


def test_a_request_whose_tool_call_ended_is_withdrawn_and_not_taken_up_again_from_the_list(desk: Desk) -> None:
    asked(desk, request())
    aborted = ToolEnded("ses_1", "call_per_1", ok=False, title=None)
    assert desk.happened(aborted) == [Withdraw("ses_1", "per_1", "asker_gave_up", GHOST)]
    assert desk.judged("per_1", ALLOWED) == []
    assert desk.listed(DIRECTORY, [request()], {"ses_1"}, desk.waiting) == []


def test_a_session_at_rest_is_looked_at_before_its_requests_count_as_ghosts(desk: Desk) -> None:
    asked(desk, request("per_1"))
    [look] = desk.happened(SessionIdle("ses_1"))
    assert look == LookAtSession("ses_1", DIRECTORY, ("per_1",))
    asked(desk, request("per_2"))
    assert desk.found_idle(("per_1",)) == [Withdraw("ses_1", "per_1", "asker_gave_up", GHOST)]
    assert desk.waiting == {"per_2"}


def test_a_listed_request_of_a_session_at_rest_is_a_ghost(desk: Desk) -> None:
    asked(desk, request("per_1"))
    found = desk.listed(DIRECTORY, [request("per_1"), request("per_2")], set(), desk.waiting)
    assert found == [Withdraw("ses_1", "per_1", "asker_gave_up", GHOST)]
    assert desk.waiting == frozenset()


def test_a_ghost_of_a_session_that_is_at_work_again_is_left_alone(desk: Desk) -> None:
    ghost, live = request("per_1"), request("per_2")
    found = desk.listed(DIRECTORY, [ghost, live], {"ses_1"}, desk.waiting, {"per_1"})
    assert found == [Judge(live)]


def test_what_the_ledger_knows_to_be_over_is_not_answered(desk: Desk) -> None:
    asked(desk, request())
    assert desk.judged("per_1", Verdict("reject", "the agent gave up", nobody_waits=True)) == []
    assert desk.waiting == frozenset()


def test_a_deleted_session_ends_its_requests_and_is_closed(desk: Desk) -> None:
    asked(desk, request())
    assert desk.happened(SessionDeleted("ses_1")) == [
        Withdraw("ses_1", "per_1", "asker_gave_up", GHOST),
        CloseSession("ses_1"),
    ]


# --- connections lost, and processes that end ------------------------------------------------------------------------


def test_what_is_not_listed_any_more_is_withdrawn_as_its_asker_s_death(desk: Desk) -> None:
    asked(desk, request())
    assert desk.listed(DIRECTORY, [], set(), desk.waiting) == [Withdraw("ses_1", "per_1", "asker_died", GONE)]


def test_what_was_asked_after_the_list_was_is_not_missed_in_it(desk: Desk) -> None:
    before = desk.waiting
    asked(desk, request())
    assert desk.listed(DIRECTORY, [], {"ses_1"}, before) == []
    assert desk.waiting == {"per_1"}


def test_another_directory_s_list_says_nothing_of_a_request(desk: Desk) -> None:
    asked(desk, request())
    assert desk.listed("/elsewhere", [], set(), desk.waiting) == []


def test_what_is_listed_and_not_known_is_judged(desk: Desk) -> None:
    assert desk.listed(DIRECTORY, [request()], None, desk.waiting) == [Judge(request())]


def test_an_answer_that_could_not_be_brought_is_brought_again_when_it_is_still_listed(desk: Desk) -> None:
    asked(desk, request())
    desk.judged("per_1", ALLOWED)
    assert desk.answered("per_1", None) == []
    assert desk.listed(DIRECTORY, [request()], {"ses_1"}, desk.waiting) == [Answer(request(), "once")]


def test_an_answer_that_could_not_be_brought_is_forgotten_when_its_request_is_gone(desk: Desk) -> None:
    asked(desk, request())
    desk.judged("per_1", ALLOWED)
    desk.answered("per_1", None)
    assert desk.listed(DIRECTORY, [], set(), desk.waiting) == []
    assert desk.waiting == frozenset()


def test_when_nothing_listens_any_more_everything_ends_and_what_comes_back_is_refused(desk: Desk) -> None:
    asked(desk, request())
    assert desk.died() == [Withdraw("ses_1", "per_1", "asker_died", GONE)]
    [refused] = desk.listed(DIRECTORY, [request()], {"ses_1"}, desk.waiting)
    assert refused == Answer(request(), "reject", "the request was withdrawn while opencode was away; ask again")


def test_what_an_earlier_bridge_left_pending_ends_unless_opencode_still_waits_for_it(desk: Desk) -> None:
    asked(desk, request("per_1"))
    assert desk.left_over("ses_1", "per_1") == []
    assert desk.left_over("ses_1", "per_0") == [
        Withdraw("ses_1", "per_0", "asker_died", "opencode does not have it any more")
    ]


# --- fail closed -----------------------------------------------------------------------------------------------------


def test_nobody_to_ask_is_a_reject_and_what_may_have_been_written_is_withdrawn(desk: Desk) -> None:
    asked(desk, request())
    assert desk.refused("per_1", "denied, because nobody could be asked", may_be_pending=True) == [
        Answer(request(), "reject", "denied, because nobody could be asked"),
        Withdraw("ses_1", "per_1", "asker_gave_up", "the bridge could not reach the gateway, and refused it"),
    ]


def test_a_request_that_cannot_be_read_is_refused_where_it_can_be_named(desk: Desk) -> None:
    told, answer = desk.misread(ShapeError("its patterns is no list", "ses_1", "per_1"), DIRECTORY)
    assert isinstance(told, Tell)
    unread = Asked("per_1", "ses_1", "?", (), (), {}, DIRECTORY)
    assert answer == Answer(unread, "reject", "cannot be judged: its patterns is no list")
    assert [type(one) for one in desk.misread(ShapeError("no object"), DIRECTORY)] == [Tell]
