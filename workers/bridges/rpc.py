"""Agents that ask by JSON-RPC lines: the interface of such a protocol. No I/O."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, Protocol

from workers.bridges.messages import Message
from workers.bridges.tool_calls import CallVerdict, ToolCall

HostReply = Literal["once", "session", "always", "reject", "cancelled"]


class RpcQuestion(NamedTuple):
    """A permission request of the agent. `key` is its JSON-RPC id as text; ids count from 0, and may be strings.

    `lineage` is of a sub-agent's session: its parent, the parent's parent, and so on, as far as the agent told.
    """

    key: str
    rpc_id: Any
    session: str
    cwd: str | None
    call: ToolCall
    message: Message
    lineage: tuple[str, ...] = ()


class EndedQuestions(NamedTuple):
    """Questions that need no answer any more: those of one session, or the one of `key`."""

    session: str | None = None
    key: str | None = None
    answers_agent: bool = False
    """True if the agent still needs a message that they are cancelled."""


class EndedCall(NamedTuple):
    """A call whose end the agent reported. `ok`: it succeeded."""

    session: str
    call_id: str
    ok: bool


class HostAnswer(NamedTuple):
    """CONST A person's answer at the host: the ledger's record of it, the `line` for the agent, and the `prompt`."""

    reply: HostReply
    line: bytes
    prompt: str | None = None


class Wire(Protocol):
    """One protocol: messages parsed, answers built."""

    agent: str
    """The agent's name in the ledger."""
    host: str
    """The name of its own prompt."""

    def question_of(self, message: Message) -> RpcQuestion | str | None:
        """Return the permission request in a message, the text of what is wrong with it, or None for others."""
        ...

    def refuse(self, message: Message) -> bytes:
        """Build the answer to a request that cannot be read."""
        ...

    def answer(self, question: RpcQuestion, verdict: CallVerdict) -> bytes:
        """Build the agent's answer for a verdict. Nothing but a plain allow allows."""
        ...

    def cancelled(self, question: RpcQuestion) -> bytes: ...

    def answer_of(self, question: RpcQuestion, message: Message, line: bytes) -> HostAnswer | None:
        """Return the host's answer; None if nobody there could be asked, or if it cannot be read."""
        ...

    def withdrawal(self, question: RpcQuestion) -> bytes | None:
        """Build the message that closes the host's prompt."""
        ...

    def heard_from_agent(self, message: Message) -> EndedQuestions | None: ...

    def heard_from_host(self, message: Message) -> EndedQuestions | None: ...

    def call_ended(self, message: Message) -> EndedCall | None:
        """Return the call whose run a message of the agent ends; None for any other message."""
        ...


def key_of(rpc_id: Any) -> str:
    """Return an id as text: 0, "0" and null are three ids; 0 and 0.0 are one, as for the agents."""
    whole = isinstance(rpc_id, float) and rpc_id.is_integer()
    return json.dumps(int(rpc_id) if whole else rpc_id)
