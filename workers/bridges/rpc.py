"""Agents that ask by JSON-RPC lines: what a bridge must know of such a protocol. No I/O."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, Protocol

from workers.bridges.judging import CallVerdict, ToolCall
from workers.bridges.messages import Message

HostReply = Literal["once", "session", "always", "reject", "cancelled"]


class RpcQuestion(NamedTuple):
    """A permission request of the agent. `key` is its JSON-RPC id as text; ids count from 0, and may be strings.

    `lineage` is of a sub-agent's session: its parent, the parent's parent, and so on, as far as the agent said.
    """

    key: str
    rpc_id: Any
    session: str
    cwd: str | None
    call: ToolCall
    message: Message
    lineage: tuple[str, ...] = ()


class EndedQuestions(NamedTuple):
    """Questions that nobody needs an answer to: of one session, or the one of `key`."""

    session: str | None = None
    key: str | None = None
    answers_agent: bool = False
    """Whether the agent still waits for the word that they are cancelled."""


class HostAnswer(NamedTuple):
    """What a person answered at the host: as the ledger records it, the `line` that the agent gets, and at which `prompt`."""

    reply: HostReply
    line: bytes
    prompt: str | None = None


class Wire(Protocol):
    """One protocol: messages read, answers made."""

    agent: str
    """What the agent is called in the ledger."""
    host: str
    """Where its own prompt is, in a word."""

    def question_of(self, message: Message) -> RpcQuestion | str | None:
        """The permission that is asked for, what is wrong with it, or None for any other message."""
        ...

    def refuse(self, message: Message) -> bytes:
        """The answer to a request that cannot be read."""
        ...

    def answer(self, question: RpcQuestion, verdict: CallVerdict) -> bytes:
        """What the agent gets for a verdict. Nothing but a plain allow allows."""
        ...

    def cancelled(self, question: RpcQuestion) -> bytes: ...

    def answer_of(self, question: RpcQuestion, message: Message, line: bytes) -> HostAnswer | None:
        """What the host has answered; None is that nobody there could be asked, or that it cannot be read."""
        ...

    def withdrawal(self, question: RpcQuestion) -> bytes | None:
        """What tells the host that its prompt is over."""
        ...

    def heard_from_agent(self, message: Message) -> EndedQuestions | None: ...

    def heard_from_host(self, message: Message) -> EndedQuestions | None: ...


def key_of(rpc_id: Any) -> str:
    """An id as text: 0, "0" and null are three ids; 0 and 0.0 are one, as they are to the agents."""
    whole = isinstance(rpc_id, float) and rpc_id.is_integer()
    return json.dumps(int(rpc_id) if whole else rpc_id)
