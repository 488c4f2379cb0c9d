"""The actions that the request tracker decides on. Bridge and effects carry them out."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from workers.bridges.opencode.shapes import Answers, ReplyWord, RequestAsked

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
