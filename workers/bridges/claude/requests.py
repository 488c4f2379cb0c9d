"""The permission requests of one client: asked at the ledger, answered in the client's protocol, withdrawn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from workers.bridges.claude import protocol
from workers.bridges.claude.protocol import AGENT, Permission
from workers.bridges.messages import Message
from workers.bridges.options import BridgeOptions
from workers.bridges.session_ids import id_of, new_id
from workers.bridges.stdio import tell
from workers.bridges.tool_calls import CallVerdict, Cause, GatewayJudge, ToolCall, verdict_of_failure
from workers.transport.errors import BridgeError
from workers.transport.gateway_client import GatewayClient

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


GiveAnswer = Callable[[bytes | None], Awaitable[None]]
"""Takes the line for the client, or None if the host has to be asked."""

BridgeStep = Coroutine[Any, Any, None]


class ClaudeRequests:
    """Requests on one event loop; the threads that carry lines call `has`, `ids` and `take` as well."""

    def __init__(
        self, client: GatewayClient, options: BridgeOptions, *, cwd: str, interrupts: bool, shares_grants: bool
    ) -> None:
        self._client = client
        self._options = options
        self._cwd = cwd
        self._interrupts = interrupts
        self._shares_grants = shares_grants
        self._session = options.session
        self._judge: GatewayJudge | None = None
        self._judges: dict[str, GatewayJudge] = {}
        self._lineage = Lineage()
        self._taken: set[str] = set()
        self._begun: dict[str, tuple[GatewayJudge, Permission, asyncio.Task[None]]] = {}
        self._ran: dict[str, dict[str, Any]] = {}
        self._mode_told: str | None = None

    def has(self, control_id: object) -> bool:
        """Return whether the ledger has this request, so that nobody else answers it."""
        return control_id in self._taken

    def ids(self) -> frozenset[str]:
        return frozenset(self._taken.copy())

    def take(self, control_id: str) -> bool:
        """Claim the request for the ledger; False if it was claimed before."""
        if control_id in self._taken:
            return False
        self._taken.add(control_id)
        return True

    def begin(self, permission: Permission, answer: GiveAnswer) -> None:
        """Ask; `answer` is called once, unless the request is withdrawn first."""
        judge = self._current()
        task = asyncio.get_running_loop().create_task(self._ask(judge, permission, answer))
        self._begun[permission.control_id] = (judge, permission, task)

    async def withdraw(self, control_id: str, cause: Cause) -> None:
        """Withdraw a request whose answer the client does not need any more."""
        begun = self._begun.pop(control_id, None)
        if begun is not None:
            judge, permission, task = begun
            await judge.withdraw(id_of(permission.tool_use_id), cause)
            task.cancel()
            await asyncio.wait([task])
        self._taken.discard(control_id)

    async def end(self) -> None:
        """Withdraw all requests and end all claims, since the client has ended."""
        await asyncio.gather(*(self.withdraw(control_id, "asker_died") for control_id in list(self._begun)))
        await asyncio.gather(*(judge.claims.agent_ended() for judge in self._judges.values()))

    def note(self, message: Message) -> Iterator[BridgeStep]:
        """Read a client's message about sessions, agents and finished calls; yield the work that follows from it."""
        kind = message.get("type")
        if kind == "system" and message.get("subtype") == "init":
            # At once, since the next line may hold the first question.
            self._set_session(message)
            self._tell_mode(message.get("permissionMode"))
            yield self._open()
        elif kind == "system" and message.get("subtype") == "status":
            self._tell_mode(message.get("permissionMode"))
        elif kind == "system" and message.get("subtype") == "task_started":
            self._lineage.hear_task(message)
        elif kind == "assistant":
            self._lineage.hear(message)
        elif kind == "user":
            yield from self._finished(message)

    async def _ask(self, judge: GatewayJudge, permission: Permission, answer: GiveAnswer) -> None:
        try:
            verdict = await judge.judge(self._call(permission))
        except Exception as error:  # noqa: BLE001 - see verdict_of_failure
            verdict = verdict_of_failure(permission.tool_use_id, error)
        line = None if verdict.behaviour == "agent" else self._line(permission, verdict)
        self._begun.pop(permission.control_id, None)
        self._taken.discard(permission.control_id)
        with suppress(BrokenPipeError):
            await answer(line)

    def _line(self, permission: Permission, verdict: CallVerdict) -> bytes:
        if verdict.behaviour != "allow":
            stops = self._interrupts and verdict.stops_agent
            return protocol.deny(permission.control_id, verdict.message, interrupt=stops)
        runs = permission.input if verdict.updated_input is None else verdict.updated_input
        self._ran[permission.tool_use_id] = {"request_id": verdict.request_id, "input": runs}
        granted = protocol.to_share(verdict) if self._shares_grants else ()
        return protocol.allow(permission.control_id, runs, granted)

    def _call(self, permission: Permission) -> ToolCall:
        agent_id = permission.request.get("agent_id")
        origin = self._lineage.origin(permission.tool_use_id, agent_id if isinstance(agent_id, str) else None)
        metadata = protocol.metadata_of(permission)
        if origin.parent_call is not None:
            metadata["parent_call_id"] = origin.parent_call
        call_id = id_of(permission.tool_use_id)
        return ToolCall(
            request_id=call_id,
            tool_name=permission.tool_name,
            input=permission.input,
            metadata=metadata,
            call_id=call_id,
            message_id=None if origin.message_id is None else id_of(origin.message_id),
            agent=origin.agent,
            parent=origin.parent,
            cwd=self._cwd,
            always=protocol.offered(permission),
            keeps_id=False,
        )

    def _current(self) -> GatewayJudge:
        session = self._session or new_id("claude")
        if self._judge is None or self._judge.session != session:
            self._session = session
            judge = self._judges.get(session)
            if judge is None:
                judge = GatewayJudge(self._client, self._options, session, agent=protocol.AGENT, cwd=self._cwd)
                self._judges[session] = judge
            self._judge = judge
        return self._judge

    def _set_session(self, init: Message) -> None:
        session, cwd = init.get("session_id"), init.get("cwd")
        if self._options.session is None and isinstance(session, str) and session:
            self._session = id_of(session)
        if isinstance(cwd, str) and cwd.startswith("/"):
            self._cwd = cwd

    def _tell_mode(self, mode: object) -> None:
        """Report, once for each change, that the client will not ask: nothing else shows it."""
        if mode is None:
            return
        silent = protocol.silent_mode(mode)
        if silent is not None and silent != self._mode_told:
            tell(
                f"Claude Code is in mode `{silent}`: calls that this mode allows are neither asked about nor "
                "recorded. Start the bridge with --require-asking, or let hooks ask about every call (--install)"
            )
        self._mode_told = silent

    async def _open(self) -> None:
        """Open the session before the first question, so that rules answer it in one exchange."""
        try:
            await self._current().open()
        except BridgeError as error:
            tell(error.text)  # reported again, as an answer, at the next question

    def _finished(self, message: Message) -> Iterator[BridgeStep]:
        inner = message.get("message")
        content = inner.get("content") if isinstance(inner, dict) else None
        for block in content if isinstance(content, list) else ():
            call_id = block.get("tool_use_id") if isinstance(block, dict) else None
            ran = self._ran.pop(call_id, None) if isinstance(call_id, str) else None
            if ran is not None and self._judge is not None:
                yield self._judge.ran(**ran, call_id=id_of(str(call_id)), ok=not block.get("is_error"))
