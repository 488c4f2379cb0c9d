"""The tracker's actions, and the ledger's outcomes in OpenCode's terms: three words and a message. No I/O.

Bridge and effects carry the actions out. A question of the `question` tool is no permission: it runs nothing and needs
an answer. So it is asked as a call of the tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from workers.bridges.opencode.shapes import Answers, ReplyWord, RequestAsked


class OpencodeVerdict(NamedTuple):
    """`reply` is `once` or `reject`, never `always`: OpenCode would remember it and not ask us again.

    With a message the agent's turn goes on, without one it ends. `because_of` is the request whose reply settled this
    one as well. `nobody_waits`: it was withdrawn because the call that asked is over. `answers` are to a question;
    `is_opencodes`: a rule lets OpenCode ask it, and it has no answer so far.
    """

    reply: ReplyWord
    message: str | None = None
    because_of: str | None = None
    nobody_waits: bool = False
    answers: Answers | None = None
    is_opencodes: bool = False


def verdict_of(row: Mapping[str, Any]) -> OpencodeVerdict:
    """Return the verdict of a settled request. Only the outcome `allowed`, with the input as asked, lets it run."""
    cause = row.get("cause")
    because_of = cause.get("request_id") if isinstance(cause, Mapping) else None
    if row.get("outcome") == "allowed":
        changed = row.get("updated_input")
        if changed is None:
            return OpencodeVerdict("once", None, because_of)
        # OpenCode cannot run another input than the one it asked for.
        wanted = json.dumps(changed, ensure_ascii=False)
        return OpencodeVerdict("reject", f"a person allowed this with another input; call the tool again with {wanted}")
    if row.get("cancel_cause") in ("asker_gave_up", "asker_died"):
        return OpencodeVerdict("reject", row.get("message"), nobody_waits=True)
    if row.get("outcome") == "corrected" and isinstance(row.get("feedback"), str):
        return OpencodeVerdict("reject", row["feedback"], because_of)
    if row.get("agent") == "stop":
        return OpencodeVerdict("reject", None, because_of)
    return OpencodeVerdict("reject", row.get("message") or f"the request was {row.get('outcome')}", because_of)


Cause = Literal["asker_gave_up", "asker_died", "withdrawn"]


class JudgeRequest(NamedTuple):
    """Ask the gateway, and wait for the outcome."""

    asked: RequestAsked


class AnswerRequest(NamedTuple):
    """Answer a request at OpenCode; an allowed question with its `answers`."""

    asked: RequestAsked
    reply: ReplyWord
    message: str | None = None
    answers: Answers | None = None

    @property
    def heard_as(self) -> ReplyWord:
        """Return OpenCode's reading of it: a question refused with a message counts as answered there."""
        return "once" if self.message and self.asked.questions else self.reply


class Withdraw(NamedTuple):
    """Withdraw a request at the gateway."""

    session: str
    request_id: str
    cause: Cause
    reason: str


class RecordReply(NamedTuple):
    """Record a person's answer in OpenCode itself; `reply` is the part that the ledger is to remember.

    `input` is a question's, with the chosen answers.
    """

    session: str
    request_id: str
    reply: Literal["once", "session", "reject"]
    said: ReplyWord
    input: dict[str, Any] | None = None


class Note(NamedTuple):
    """Note that a tool call which was asked about has ended."""

    session: str
    request_id: str
    ok: bool
    title: str | None


class LookAtSession(NamedTuple):
    """Check that the session is still busy; if it is not, these requests of it are ghosts."""

    session: str
    directory: str | None
    request_ids: tuple[str, ...]


class CloseSession(NamedTuple):
    session: str


class Tell(NamedTuple):
    """Tell the person who runs the bridge."""

    text: str


Action = JudgeRequest | AnswerRequest | Withdraw | RecordReply | Note | LookAtSession | CloseSession | Tell


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
