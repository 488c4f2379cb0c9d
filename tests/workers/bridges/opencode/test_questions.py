"""OpenCode's `question` tool: shown as a question, answered with the chosen labels, withdrawn when no asker waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.gateways import Person
from tests.support.opencode import DIRECTORY, OpenCodeServer
from tests.support.waiting import wait_until_async
from tests.workers.bridges.opencode.conftest import Bridged
from workers.bridges.opencode.request_tracker import (
    AnswerRequest,
    JudgeRequest,
    OpencodeVerdict,
    RecordReply,
    RequestTracker,
    Tell,
    answers_in,
    said_to_opencode,
    verdict_of_question,
)
from workers.bridges.opencode.shapes import RequestAsked, RequestReplied, ShapeError, read_event, read_question

Row = dict[str, Any]

COLOUR: Final[Row] = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}
SIZES: Final[Row] = {
    "question": "Which sizes?",
    "header": "Sizes",
    "options": [{"label": "S", "description": "small"}, {"label": "L", "description": "large"}],
    "multiple": True,
}
REQUEST: Final[Row] = {
    "id": "que_1",
    "sessionID": "ses_1",
    "questions": [COLOUR, SIZES],
    "tool": {"messageID": "msg_1", "callID": "call_1"},
}
QUESTION: Final = read_question(REQUEST, DIRECTORY)


async def answer_to(opencode: OpenCodeServer, request_id: str) -> list[list[str]] | None:
    """Return the answers to an OpenCode question, after waiting for them; None when it was dismissed."""
    await wait_until_async(lambda: request_id in opencode.answers, f"an answer to {request_id}")
    return opencode.answers[request_id]


async def settled(ann: Person, request_id: str) -> Row:
    row = await wait_until_async(lambda: ann.outcome("ses_1", request_id), f"{request_id} to be settled")
    assert row is not None
    return row


# --- between the two -------------------------------------------------------------------------------------------------


async def test_a_question_is_shown_as_one_and_answered_with_what_a_person_chose(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask_person("ses_1", COLOUR, SIZES)
        [shown] = await ann.waiting("ses_1")
        chosen = {**shown["input"], "answers": {"Which colour?": "Blue", "Which sizes?": ["S", "L"]}}
        await ann.reply("ses_1", request_id, "once", updated_input=chosen)
        assert await answer_to(bridged.opencode, request_id) == [["Blue"], ["S", "L"]]
    known = ("request_id", "permission", "patterns", "always", "tool_name", "input", "tool")
    assert {name: shown[name] for name in known} == {
        "request_id": request_id,
        "permission": "question",
        "patterns": ["Which colour?", "Which sizes?"],
        "always": [],
        "tool_name": "question",
        "input": {"questions": [COLOUR, SIZES]},
        "tool": {"message_id": "msg_1", "call_id": "call_1"},
    }
    assert shown["metadata"]["kind"] == "question"


async def test_a_rejected_question_is_dismissed_and_one_with_words_is_answered_with_them(
    bridged: Bridged, ann: Person
) -> None:
    async with bridged.running():
        first = bridged.opencode.ask_person("ses_1", COLOUR)
        await ann.answer_next("ses_1", "reject")
        assert await answer_to(bridged.opencode, first) is None
        second = bridged.opencode.ask_person("ses_1", COLOUR)
        await ann.answer_next("ses_1", "reject", message="green, of course")
        assert await answer_to(bridged.opencode, second) == [["Not answered: green, of course"]]


async def test_a_question_beside_a_command_falls_with_it_in_the_ledger_and_is_dismissed_in_opencode(
    bridged: Bridged, ann: Person
) -> None:
    async with bridged.running():
        command, question = bridged.opencode.ask(), bridged.opencode.ask_person("ses_1", COLOUR)
        await ann.waiting("ses_1", 2)
        await ann.reply("ses_1", command, "reject", message="no")
        assert await answer_to(bridged.opencode, question) is None
        await wait_until_async(lambda: command in bridged.opencode.replies, "the command to be refused")
    assert bridged.opencode.replies[command] == ("reject", "no")


async def test_what_a_person_answers_in_opencode_itself_is_recorded_with_the_answers(
    bridged: Bridged, ann: Person
) -> None:
    async with bridged.running():
        first, second = (
            bridged.opencode.ask_person("ses_1", COLOUR, SIZES),
            bridged.opencode.ask_person("ses_1", COLOUR),
        )
        await ann.waiting("ses_1", 2)
        bridged.opencode.answer(first, [["Green, please"], ["S"]])
        answered = await settled(ann, first)
        bridged.opencode.answer(second, None)
        dismissed = await settled(ann, second)
    given = {"Which colour?": "Green, please", "Which sizes?": ["S"]}
    assert (answered["outcome"], answered["updated_input"]["answers"]) == ("allowed", given)
    assert dismissed["outcome"] == "rejected"
    events = [row for row in await ann.events("ses_1") if row["type"] == "replied"]
    assert [(row["actor"]["via"], row["event"]["told"]) for row in events] == [("told", "opencode")] * 2


async def test_a_stopped_agent_s_question_is_withdrawn_and_its_ghost_left_alone(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask_person("ses_1", COLOUR)
        await ann.waiting("ses_1")
        bridged.opencode.abort("ses_1")
        row = await settled(ann, request_id)
    async with bridged.running():
        again = bridged.opencode.ask_person("ses_2", COLOUR)
        await ann.answer_next("ses_2", "reject")
        assert await answer_to(bridged.opencode, again) is None
    assert (row["outcome"], request_id in bridged.opencode.questions) == ("cancelled", True)


async def test_a_question_outlives_its_bridge_and_is_found_in_the_list_by_the_next(
    bridged: Bridged, ann: Person
) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask_person("ses_1", COLOUR)
        await ann.waiting("ses_1")
    await ann.reply("ses_1", request_id, "once", updated_input={"answers": {"Which colour?": "Red"}})
    async with bridged.running():
        assert await answer_to(bridged.opencode, request_id) == [["Red"]]


async def test_a_question_that_opencode_lost_with_its_process_is_cancelled(bridged: Bridged, ann: Person) -> None:
    async with bridged.running():
        request_id = bridged.opencode.ask_person("ses_1", COLOUR)
        await ann.waiting("ses_1")
    await bridged.opencode.stop()
    await bridged.opencode.start()
    async with bridged.running():
        assert (await settled(ann, request_id))["outcome"] == "cancelled"


async def test_a_server_without_questions_is_followed_all_the_same(bridged: Bridged, ann: Person) -> None:
    bridged.opencode.has_questions = False
    first = bridged.opencode.ask()
    async with bridged.running():
        await ann.answer_next("ses_1", "once")
        await wait_until_async(lambda: first in bridged.opencode.replies, "an answer")
    assert bridged.opencode.replies[first] == ("once", None)


async def test_a_rule_that_allows_questions_leaves_them_to_opencode_s_own_prompt(
    bridged: Bridged, ann: Person, tmp_path: Path
) -> None:
    rules = tmp_path / "opencode.json"
    rules.write_text(json.dumps({"permission": {"*": "allow"}}))
    async with bridged.running(rules=str(rules)):
        request_id = bridged.opencode.ask_person("ses_1", COLOUR)
        told = f"`{request_id}` is a question that a rule lets opencode ask; its own prompt has to answer it"
        await wait_until_async(lambda: told in bridged.told, "a word about it")
        assert request_id in bridged.opencode.questions
        bridged.opencode.answer(request_id, [["Red"]])
        bridged.opencode.tool_ends(request_id, {"sessionID": "ses_1", "tool": {"callID": "call_1"}})
    assert bridged.told == [told]


async def test_a_rule_that_denies_questions_answers_with_its_own_words(bridged: Bridged, tmp_path: Path) -> None:
    rules = tmp_path / "opencode.json"
    rules.write_text(json.dumps({"permission": {"question": "deny"}}))
    async with bridged.running(rules=str(rules)):
        [[said]] = await answer_to(bridged.opencode, bridged.opencode.ask_person("ses_1", COLOUR)) or [[]]
    assert said.startswith("Not answered: The user has specified a rule which prevents you")


# --- read strictly ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("questions", "text"),
    [
        (None, "it does not ask one to 64 questions"),
        ([], "it does not ask one to 64 questions"),
        ([COLOUR] * 65, "it does not ask one to 64 questions"),
        (["Which?"], "one of its questions is not an object"),
        ([{**COLOUR, "question": ""}], "its question is not a text"),
        ([{**COLOUR, "options": "Red"}], "the options of a question are not a list of at most 256"),
        ([{**COLOUR, "options": [{"description": "x"}]}], "its option's label is not a text"),
    ],
)
def test_a_question_of_another_form_is_dismissed_by_name(questions: object, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        read_event({"type": "question.asked", "properties": {**REQUEST, "questions": questions}}, DIRECTORY)
    error = caught.value
    assert (str(error), error.session, error.request_id, error.is_question) == (text, "ses_1", "que_1", True)
    tell, answer = RequestTracker().misread(error, DIRECTORY)
    assert tell == Tell(f"refused `que_1`: {text}")
    assert isinstance(answer, AnswerRequest)
    assert said_to_opencode(answer) is None


@pytest.mark.parametrize("answers", [None, "Blue", ["Blue"], [[1]]])
def test_an_answer_of_another_form_is_not_taken_for_one(answers: object) -> None:
    said = {"sessionID": "ses_1", "requestID": "que_1", "answers": answers}
    with pytest.raises(ShapeError):
        read_event({"type": "question.replied", "properties": said}, None)


@pytest.mark.parametrize(
    ("chosen", "answers"),
    [
        ({"answers": {"Which colour?": "Blue", "Which sizes?": ["S", "L"]}}, (("Blue",), ("S", "L"))),
        ({"answers": {"Which sizes?": ["S"]}}, ((), ("S",))),
        ({"answers": [["Blue"], ["S"]]}, (("Blue",), ("S",))),
        ({"answers": [["Blue"]]}, (("Blue",), ())),
        ({"answers": {"Which colour?": 7, "Which sizes?": [None, "L", ""]}}, ((), ("L",))),
        ({"answers": "Blue"}, ((), ())),
        ({}, ((), ())),
        (None, ((), ())),
    ],
)
def test_what_was_chosen_is_read_question_by_question_and_what_was_not_stays_unanswered(
    chosen: object, answers: object
) -> None:
    assert answers_in(QUESTION, chosen) == answers


def test_an_always_that_reached_a_question_by_the_way_answers_nothing() -> None:
    row = {"outcome": "allowed", "reply": "always", "cause": {"kind": "grant"}, "updated_input": None}
    assert verdict_of_question(QUESTION, row) == OpencodeVerdict("once", is_opencodes=True)


# --- at the desk -----------------------------------------------------------------------------------------------------


def command(request_id: str = "per_1") -> RequestAsked:
    return RequestAsked(
        request_id, "ses_1", "bash", ("git push",), ("git *",), {}, DIRECTORY, "msg_1", f"call_{request_id}"
    )


def test_a_refused_command_draws_no_answer_to_a_question_after_it() -> None:
    tracker = RequestTracker()
    for one in (command(), QUESTION):
        assert tracker.happened(one) == [JudgeRequest(one)]
    tracker.judged("per_1", OpencodeVerdict("reject"))
    tracker.happened(RequestReplied("ses_1", "per_1", "reject"))
    assert tracker.happened(RequestReplied("ses_1", "que_1", "reject")) == [
        RecordReply("ses_1", "que_1", "reject", "reject")
    ]


def test_a_question_refused_because_of_a_command_is_answered_itself_and_not_waited_for_behind_it() -> None:
    tracker = RequestTracker()
    for one in (command(), QUESTION):
        tracker.happened(one)
    assert tracker.judged("que_1", OpencodeVerdict("reject", because_of="per_1")) == [AnswerRequest(QUESTION, "reject")]


def test_words_that_refuse_a_question_are_no_surprise_when_opencode_calls_them_an_answer() -> None:
    tracker = RequestTracker()
    tracker.happened(QUESTION)
    assert tracker.judged("que_1", OpencodeVerdict("reject", "ask me later")) == [
        AnswerRequest(QUESTION, "reject", "ask me later")
    ]
    answers = (("Not answered: ask me later",),) * 2
    assert tracker.happened(RequestReplied("ses_1", "que_1", "once", answers)) == []


def test_an_answer_in_opencode_that_came_before_a_dismissal_is_told() -> None:
    tracker = RequestTracker()
    tracker.happened(QUESTION)
    tracker.judged("que_1", OpencodeVerdict("reject"))
    [told] = tracker.happened(RequestReplied("ses_1", "que_1", "once", (("Red",), ())))
    assert isinstance(told, Tell)
    assert "before the ledger's answer arrived" in told.text
