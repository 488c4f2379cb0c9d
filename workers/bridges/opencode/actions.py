"""What is to be done, as the desk decides it; others do it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from workers.bridges.opencode.shapes import Asked, ReplyWord

Cause = Literal["asker_gave_up", "asker_died", "withdrawn"]


class Judge(NamedTuple):
    """Ask the gateway, and wait for the outcome."""

    asked: Asked


class Answer(NamedTuple):
    """Answer a request at OpenCode."""

    asked: Asked
    reply: ReplyWord
    message: str | None = None


class Withdraw(NamedTuple):
    """Tell the gateway that nobody waits for the answer any more."""

    session: str
    request_id: str
    cause: Cause
    reason: str


class Record(NamedTuple):
    """Tell the gateway what a person answered in OpenCode itself; `reply` is what of it the ledger is to remember."""

    session: str
    request_id: str
    reply: Literal["once", "session", "reject"]
    said: ReplyWord


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


Action = Judge | Answer | Withdraw | Record | Note | LookAtSession | CloseSession | Tell
