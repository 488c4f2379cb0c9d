"""What is to be done, as the desk decides it; others do it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from workers.bridges.opencode.shapes import Answers, ReplyWord, RequestAsked

Cause = Literal["asker_gave_up", "asker_died", "withdrawn"]


class JudgeRequest(NamedTuple):
    """Ask the gateway, and wait for the outcome."""

    asked: RequestAsked


class AnswerRequest(NamedTuple):
    """Answer a request at OpenCode; a question that is allowed with the `answers` to it."""

    asked: RequestAsked
    reply: ReplyWord
    message: str | None = None
    answers: Answers | None = None

    @property
    def heard_as(self) -> ReplyWord:
        """What OpenCode makes of it: the words that refuse a question are an answer to it there."""
        return "once" if self.message and self.asked.questions else self.reply


class Withdraw(NamedTuple):
    """Tell the gateway that nobody waits for the answer any more."""

    session: str
    request_id: str
    cause: Cause
    reason: str


class RecordReply(NamedTuple):
    """Tell the gateway what a person answered in OpenCode itself; `reply` is what of it the ledger is to remember.

    `input` is a question's, with what was chosen.
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
    """Find out whether the session is still at work; if it is not, these requests of it are ghosts."""

    session: str
    directory: str | None
    request_ids: tuple[str, ...]


class CloseSession(NamedTuple):
    session: str


class Tell(NamedTuple):
    """Say something to the person who runs the bridge."""

    text: str


Action = JudgeRequest | AnswerRequest | Withdraw | RecordReply | Note | LookAtSession | CloseSession | Tell
