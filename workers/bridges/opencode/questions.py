"""The questions of OpenCode's `question` tool, and their outcomes in OpenCode's terms. No I/O.

A question is no permission: it runs nothing and needs an answer. So it is asked as a call of the tool, and answered by
its edited input: the questions with `answers` beside them, by question, each a label, a few labels, or free text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.bridges.opencode.actions import AnswerRequest
from workers.bridges.opencode.shapes import Answers, RequestAsked
from workers.bridges.opencode.verdicts import OpencodeVerdict, verdict_of


def verdict_of_question(asked: RequestAsked, row: Mapping[str, Any]) -> OpencodeVerdict:
    """Return the verdict of a settled question. Only a person answers one: a rule's allow only lets OpenCode ask it."""
    if row.get("outcome") != "allowed":
        return verdict_of(row)
    if row.get("reply") is None or row.get("cause") is not None:
        return OpencodeVerdict("once", is_opencodes=True)
    return OpencodeVerdict("once", answers=answers_in(asked, row.get("updated_input")))


def answers_in(asked: RequestAsked, chosen: object) -> Answers:
    """Return a person's answers, question by question; empty for an unreadable one."""
    given = chosen.get("answers") if isinstance(chosen, Mapping) else None
    if isinstance(given, Mapping):
        return tuple(_labels(given.get(one["question"])) for one in asked.questions)
    listed = given if isinstance(given, list) else []
    return tuple(_labels(listed[index] if index < len(listed) else None) for index in range(len(asked.questions)))


def with_answers(asked: RequestAsked, answers: Answers) -> dict[str, Any]:
    """Return the input of a question with the answers given in OpenCode itself, in the form of the ledger's own."""
    given = {
        one["question"]: list(labels) if one.get("multiple") is True or len(labels) != 1 else labels[0]
        for one, labels in zip(asked.questions, answers, strict=False)
    }
    return {"questions": asked.questions, "answers": given}


def said_to_opencode(answer: AnswerRequest) -> Answers | None:
    """Return OpenCode's answers, one for each question; None dismisses the question, which ends the turn.

    OpenCode takes no reason with a dismissal. So a refusal with a message is sent as the answer, which the agent reads.
    """
    count = len(answer.asked.questions)
    if answer.reply != "reject":
        return answer.answers or ((),) * count
    return ((f"Not answered: {answer.message}",),) * count if answer.message and count else None


def _labels(one: object) -> tuple[str, ...]:
    if isinstance(one, str):
        return (one,) if one else ()
    return tuple(label for label in one if isinstance(label, str) and label) if isinstance(one, list) else ()
