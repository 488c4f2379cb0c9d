"""The sub-agent that made a call of Claude Code, derived from the messages that pass by."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple

from workers.bridges.claude.protocol import AGENT

CALLS_COUNT: Final = 4096
"""The number of calls remembered; the oldest are dropped first."""


class CallOrigin(NamedTuple):
    """The asking `agent` and its `parent`; the main agent has neither. `parent_call` is the call that started it."""

    agent: str = AGENT
    parent: str | None = None
    parent_call: str | None = None
    message_id: str | None = None


class Lineage:
    """The sub-agent of each call, by its id, from the client's messages."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, CallOrigin] = OrderedDict()
        self._kinds: OrderedDict[str, str] = OrderedDict()

    def hear(self, message: dict[str, Any]) -> None:
        """Take in an `assistant` message: its calls, and the agents that they start."""
        inner = message.get("message")
        content = inner.get("content") if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or not isinstance(content, list):
            return
        parent_call = message.get("parent_tool_use_id")
        for block in content:
            if not isinstance(block, dict) or block.get("type") != "tool_use":
                continue
            call_id, tool_input = block.get("id"), block.get("input")
            if not isinstance(call_id, str):
                continue
            message_id = inner.get("id")
            known = self._origin(parent_call if isinstance(parent_call, str) else None)
            self._keep(call_id, known._replace(message_id=message_id if isinstance(message_id, str) else None))
            kind = tool_input.get("subagent_type") if isinstance(tool_input, dict) else None
            if isinstance(kind, str) and kind:
                self._kinds[call_id] = kind

    def hear_task(self, message: dict[str, Any]) -> None:
        """Take in a `task_started` message: the client's id of a sub-agent, its kind, and the call that started it."""
        agent_id, call_id, kind = (message.get(name) for name in ("task_id", "tool_use_id", "subagent_type"))
        if isinstance(agent_id, str) and isinstance(call_id, str):
            above = self._calls.get(call_id, CallOrigin())
            self._keep(
                f"agent {agent_id}",
                CallOrigin(kind if isinstance(kind, str) and kind else "agent", above.agent, call_id),
            )

    def origin(self, call_id: str, agent_id: str | None) -> CallOrigin:
        """Return the origin of a call; `agent_id` is the client's id of a sub-agent without messages so far."""
        known = self._calls.get(call_id, CallOrigin())
        if agent_id is None or known.parent is not None:
            return known
        # The request comes before the message with the call; the message that started the agent has come before.
        return self._calls.get(f"agent {agent_id}", CallOrigin(f"agent {agent_id}", AGENT))

    def _origin(self, parent_call: str | None) -> CallOrigin:
        if parent_call is None:
            return CallOrigin()
        above = self._calls.get(parent_call, CallOrigin())
        return CallOrigin(self._kinds.get(parent_call, "agent"), above.agent, parent_call)

    def _keep(self, call_id: str, origin: CallOrigin) -> None:
        self._calls[call_id] = origin
        while len(self._calls) > CALLS_COUNT:
            gone, _ = self._calls.popitem(last=False)
            self._kinds.pop(gone, None)
