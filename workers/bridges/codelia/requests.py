"""A runtime's events about calls, and its questions about them: asked at the ledger, answered, withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from workers.bridges.codelia import protocol
from workers.bridges.codelia.protocol import CodeliaCall, Confirm
from workers.bridges.held_claims import NOT_AS_CORRECTED
from workers.bridges.messages import Message
from workers.bridges.options import BridgeOptions
from workers.bridges.rpc import key_of
from workers.bridges.session_ids import id_of, new_id
from workers.bridges.tool_calls import Cause, GatewayJudge, ToolCall, verdict_of_failure
from workers.transport.gateway_client import GatewayClient

CALLS_COUNT_MAX: Final = 256
"""The number of calls, previews and runs remembered until they are asked about; the oldest are dropped first."""

T = TypeVar("T")

PassAnswer = Callable[[Confirm, bytes | None], Awaitable[None]]
"""Takes the line for the runtime, or None if the person at the runtime's own prompt has to be asked."""


class _Begun(NamedTuple):
    judge: GatewayJudge
    confirm: Confirm
    request_id: str
    task: asyncio.Task[None]


class CodeliaRequests:
    """The questions of one runtime on one event loop; the threads that carry lines call `take` and `has` as well."""

    def __init__(self, client: GatewayClient, options: BridgeOptions, *, cwd: str, shares_grants: bool) -> None:
        self._client = client
        self._options = options
        self._cwd = cwd
        self._shares_grants = shares_grants
        self._judges: dict[str, GatewayJudge] = {}
        self._session = options.session or new_id("codelia")
        self._taken: set[str] = set()
        self._begun: dict[str, _Begun] = {}
        self._calls: dict[str, CodeliaCall] = {}
        self._previews: dict[str, Message] = {}
        self._ready: dict[str, tuple[str, str]] = {}
        self._running: dict[str, tuple[GatewayJudge, str]] = {}

    # --- from the threads, in the order of the lines

    def take(self, message: Message) -> Confirm | None:
        """Claim a question about a tool for the ledger; None for any other question."""
        run_id = protocol.params_of(message).get("run_id")
        confirm = protocol.confirm_of(message, is_announced=isinstance(run_id, str) and run_id in self._ready)
        if confirm is not None:
            self._taken.add(key_of(confirm.rpc_id))
        return confirm

    def has(self, rpc_id: object) -> bool:
        return key_of(rpc_id) in self._taken

    def hear(self, notice: Message) -> Callable[[], Awaitable[None]] | None:
        """Read an `agent.event`; return the work that follows from it."""
        params = protocol.params_of(notice)
        event, run_id = params.get("event"), params.get("run_id")
        if not isinstance(event, dict):
            return None
        kind, call_id = event.get("type"), event.get("tool_call_id")
        if kind == "tool_call" and (call := protocol.call_of(event)) is not None:
            _keep(self._calls, call.call_id, call)
        elif isinstance(call_id, str):
            return self._heard_of(str(kind), call_id, run_id, event)
        return None

    def _heard_of(
        self, kind: str, call_id: str, run_id: object, event: Message
    ) -> Callable[[], Awaitable[None]] | None:
        if kind == "permission.preview":
            _keep(self._previews, call_id, event)
        elif kind == "permission.ready" and isinstance(run_id, str):
            _keep(self._ready, run_id, (call_id, str(event.get("tool"))))
        elif kind == "tool_result":
            call = self._calls.pop(call_id, None)
            self._previews.pop(call_id, None)
            running = self._running.pop(call_id, None)
            if running is not None and call is not None:
                judge, request_id = running
                ok = event.get("is_error") is not True
                return lambda: judge.ran(request_id, call_id=id_of(call_id), ok=ok, input=call.input)
        return None

    def call_asked(self, confirm: Confirm) -> ToolCall:
        """Return the announced call that is asked about, or one guessed from the text of the question."""
        ready = self._ready.pop(confirm.run_id, None) if confirm.run_id is not None else None
        call = self._calls.get(ready[0]) if ready is not None else None
        known = call is not None and ready is not None and call.tool == ready[1]
        tool, tool_input = (call.tool, call.input) if call is not None and known else protocol.guessed(confirm)
        preview = self._previews.get(ready[0]) if ready is not None else None
        return ToolCall(
            # A model may use the id of a call again in a later run; the id of a run is unique.
            request_id=id_of(f"{confirm.run_id}.{confirm.rpc_id}") if confirm.run_id else new_id("codelia"),
            tool_name=tool,
            input=tool_input,
            metadata=protocol.metadata_of(confirm, preview, known=known),
            call_id=id_of(call.call_id) if call is not None and known else None,
            agent=protocol.AGENT,
            cwd=self._cwd,
            # A guessed call is asked, and never remembered.
            always=None if known else (),
            keeps_id=False,
        )

    # --- on the loop

    def use_session(self, session: object) -> None:
        """Use the session of the run that the host has started."""
        if self._options.session is None and isinstance(session, str) and session.strip():
            self._session = id_of(session.strip())

    def begin(self, confirm: Confirm, call: ToolCall, answer: PassAnswer) -> None:
        """Ask; `answer` is called once, unless the question is withdrawn first."""
        judge = self._judges.get(self._session)
        if judge is None:
            judge = GatewayJudge(self._client, self._options, self._session, agent=protocol.AGENT, cwd=self._cwd)
            self._judges[self._session] = judge
        task = asyncio.get_running_loop().create_task(self._ask(judge, confirm, call, answer))
        self._begun[key_of(confirm.rpc_id)] = _Begun(judge, confirm, call.request_id, task)

    async def _ask(self, judge: GatewayJudge, confirm: Confirm, call: ToolCall, answer: PassAnswer) -> None:
        try:
            verdict = await judge.judge(call)
        except Exception as error:  # noqa: BLE001 - see verdict_of_failure
            verdict = verdict_of_failure(call.request_id, error)
        line = None
        if verdict.behaviour != "agent":
            line = protocol.answer(confirm, verdict, shares_grants=self._shares_grants)
        if verdict.behaviour == "allow" and verdict.updated_input is None and call.call_id is not None:
            _keep(self._running, call.call_id, (judge, verdict.request_id))
        if verdict.behaviour == "allow" and verdict.updated_input is not None:
            await judge.claims.give_back(call.request_id, NOT_AS_CORRECTED)
        self._begun.pop(key_of(confirm.rpc_id), None)
        if line is None:
            self._taken.discard(key_of(confirm.rpc_id))  # from now on the host may answer
        with suppress(BrokenPipeError):
            await answer(confirm, line)
        self._taken.discard(key_of(confirm.rpc_id))

    async def end(self) -> None:
        """Withdraw all questions and end all claims, since the runtime has ended."""
        await self.withdraw("asker_died")
        await asyncio.gather(*(judge.claims.agent_ended() for judge in self._judges.values()))

    async def withdraw(self, cause: Cause, run_id: str | None = None) -> list[Confirm]:
        """Withdraw the questions of one run or of all, and return those that were open."""
        found = [(key, one) for key, one in self._begun.items() if run_id in (None, one.confirm.run_id)]
        for key, begun in found:
            self._begun.pop(key, None)
            await begun.judge.withdraw(begun.request_id, cause)
            begun.task.cancel()
            await asyncio.wait([begun.task])
            self._taken.discard(key)
        return [begun.confirm for _, begun in found]


def _keep(kept: dict[str, T], key: str, value: T) -> None:
    """Remember a value; the number is bounded, since a runtime may never announce the end of a call."""
    kept[key] = value
    while len(kept) > CALLS_COUNT_MAX:
        kept.pop(next(iter(kept)), None)
