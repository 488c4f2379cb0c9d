"""Between Codelia's user interface and its runtime, which speak JSON-RPC over stdio: questions about tools go to the ledger.

Everything else passes byte for byte. A call is announced by the event `tool_call`, then `permission.ready`, then asked
about with `ui.confirm.request`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from workers.bridges.options import BridgeOptions
from workers.bridges.race import key_of
from workers.bridges.session_ids import id_of, new_id
from workers.bridges.stdio import Carrier, Message, keep, line_of, parse, tell, text_in
from workers.bridges.tool_calls import NOT_AS_CORRECTED, CallVerdict, Cause, GatewayJudge, ToolCall, verdict_of_failure
from workers.transport.gateway_client import GatewayClient

AGENT: Final = "codelia"
CONFIRM: Final = "ui.confirm.request"
TITLES: Final = {"Run command?": "bash", "Load skill?": "skill_load", "Run tool?": None}
"""The titles of questions about tools, with the tool; other questions (sign-in, log-out) are for the runtime's own
user."""

_PREFIX: Final = "Permission denied: "
_TEXT_CHARS_MAX: Final = 4000


class Confirm(NamedTuple):
    """A `ui.confirm.request` about a tool. `rpc_id` as it was sent, a string or a number."""

    rpc_id: Any
    run_id: str | None
    title: str
    message: str
    may_remember: bool


class CodeliaCall(NamedTuple):
    """A tool call as the runtime's event describes it."""

    call_id: str
    tool: str
    input: dict[str, Any]


def params_of(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def confirm_of(message: Message, *, is_announced: bool) -> Confirm | None:
    """Return the question about a tool in a confirm request; None for any other question.

    After `permission.ready` every confirm request is one, so that no wording bypasses the rules.
    """
    params = params_of(message)
    title = text_in(params, "title") or ""
    if not is_announced and (title not in TITLES or params.get("allow_reason") is False):
        return None
    run_id, text = text_in(params, "run_id"), text_in(params, "message") or ""
    return Confirm(message["id"], run_id, title, text, params.get("allow_remember") is not False)


def call_of(event: Message) -> CodeliaCall | None:
    """Return the call that a `tool_call` event announces."""
    call_id, tool, args = text_in(event, "tool_call_id"), text_in(event, "tool"), event.get("args")
    return CodeliaCall(call_id, tool, args) if call_id and tool and isinstance(args, dict) else None


def guessed(confirm: Confirm) -> tuple[str, dict[str, Any]]:
    """Return tool and input guessed from the text alone: the whole message, so that all of a command is visible."""
    tool = TITLES.get(confirm.title)
    if tool == "bash":
        return tool, {"command": confirm.message}
    if tool is not None:
        return tool, {"name": confirm.message}
    name = confirm.message.split(maxsplit=1)[0] if confirm.message.strip() else "tool"
    return name, {"message": confirm.message}


def metadata_of(confirm: Confirm, preview: Message | None, *, known: bool) -> Message:
    """Return the agent's own texts as metadata for the person who is asked."""
    shown: Message = {"title": confirm.title[:_TEXT_CHARS_MAX], "message": confirm.message[:_TEXT_CHARS_MAX]}
    if not known:
        shown["judged_by"] = "the words of the question alone: the agent told nothing of the call"
    for name in ("diff", "summary", "file_path"):
        text = text_in(preview or {}, name)
        if text is not None:
            shown[name] = text[:_TEXT_CHARS_MAX]
    return shown


def answer_line(confirm: Confirm, verdict: CallVerdict, *, shares_grants: bool) -> bytes:
    """Build `{ok, remember?, reason?}`. Codelia ends its turn at a "no" without a reason, and else goes on."""
    result: Message = {"ok": verdict.behaviour == "allow"}
    row = verdict.row or {}
    if verdict.behaviour != "allow":
        if not verdict.stops_agent:
            result["reason"] = _reason(verdict)
    elif verdict.updated_input is not None:
        tried = json.dumps(verdict.updated_input, ensure_ascii=False)
        result = {"ok": False, "reason": f"not allowed as it is; call again with this input, which is allowed: {tried}"}
    elif shares_grants and confirm.may_remember and _is_shared(row):
        result["remember"] = True
    return line_of({"jsonrpc": "2.0", "id": confirm.rpc_id, "result": result})


def _is_shared(row: Message) -> bool:
    """Return whether the client may remember an answer: not one with bounds or patterns of its own, nor a release."""
    is_whole = "bounds" not in row and not row.get("cause")
    return row.get("reply") == "always" and bool(row["request"]["always"]) and is_whole


def _reason(verdict: CallVerdict) -> str:
    # The runtime adds that prefix itself.
    return (
        text_in(verdict.row or {}, "feedback")
        or verdict.message.removeprefix(_PREFIX).strip()
        or f"the request was {verdict.outcome or 'denied'}"
    )


def refusal(rpc_id: Any, reason: str | None = None) -> bytes:
    """Build a "no"; without a reason the runtime's turn ends."""
    return line_of({"jsonrpc": "2.0", "id": rpc_id, "result": {"ok": False, **({"reason": reason} if reason else {})}})


def with_confirm(message: Message) -> Message:
    """Return the host's `initialize` with support for confirm requests: the bridge answers them."""
    params = params_of(message)
    said = params.get("ui_capabilities")
    capabilities = {**(said if isinstance(said, dict) else {}), "supports_confirm": True}
    return {**message, "params": {**params, "ui_capabilities": capabilities}}


CALLS_COUNT_MAX: Final = 256
"""The number of calls, previews and runs remembered until they are asked about; the oldest are dropped first."""

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
        run_id = params_of(message).get("run_id")
        confirm = confirm_of(message, is_announced=isinstance(run_id, str) and run_id in self._ready)
        if confirm is not None:
            self._taken.add(key_of(confirm.rpc_id))
        return confirm

    def has(self, rpc_id: object) -> bool:
        return key_of(rpc_id) in self._taken

    def hear(self, notice: Message) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Read an `agent.event`; return the work that follows from it."""
        params = params_of(notice)
        event, run_id = params.get("event"), params.get("run_id")
        if not isinstance(event, dict):
            return None
        kind, call_id = event.get("type"), event.get("tool_call_id")
        if kind == "tool_call" and (call := call_of(event)) is not None:
            keep(self._calls, call.call_id, call, CALLS_COUNT_MAX)
        elif isinstance(call_id, str):
            return self._heard_of(str(kind), call_id, run_id, event)
        return None

    def _heard_of(
        self, kind: str, call_id: str, run_id: object, event: Message
    ) -> Callable[[], Coroutine[Any, Any, None]] | None:
        if kind == "permission.preview":
            keep(self._previews, call_id, event, CALLS_COUNT_MAX)
        elif kind == "permission.ready" and isinstance(run_id, str):
            keep(self._ready, run_id, (call_id, str(event.get("tool"))), CALLS_COUNT_MAX)
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
        tool, tool_input = (call.tool, call.input) if call is not None and known else guessed(confirm)
        preview = self._previews.get(ready[0]) if ready is not None else None
        return ToolCall(
            # A model may use the id of a call again in a later run; the id of a run is unique.
            request_id=id_of(f"{confirm.run_id}.{confirm.rpc_id}") if confirm.run_id else new_id("codelia"),
            tool_name=tool,
            input=tool_input,
            metadata=metadata_of(confirm, preview, known=known),
            call_id=id_of(call.call_id) if call is not None and known else None,
            agent=AGENT,
            cwd=self._cwd,
            # A guessed call is asked, and never remembered.
            always=None if known else (),
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
            judge = GatewayJudge(self._client, self._options, self._session, agent=AGENT, cwd=self._cwd)
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
            line = answer_line(confirm, verdict, shares_grants=self._shares_grants)
        if verdict.behaviour == "allow" and verdict.updated_input is None and call.call_id is not None:
            keep(self._running, call.call_id, (judge, verdict.request_id), CALLS_COUNT_MAX)
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


class CodeliaBridge:
    """One runtime, from its start to its end. `headless`: the host has no user, so every question to it is denied."""

    def __init__(
        self, client: GatewayClient, options: BridgeOptions, *, shares_grants: bool = False, headless: bool = False
    ) -> None:
        self._asking = CodeliaRequests(client, options, cwd=str(Path.cwd()), shares_grants=shares_grants)
        self._headless = headless
        self._held: dict[str, bytes] = {}

    async def run(self, command: Sequence[str]) -> int:
        """Run the runtime's command to its end, and return its exit code."""
        self._carrier = Carrier(command)
        return await self._carrier.run(self._hear_host, self._hear_runtime, self._asking.end)

    # --- host to runtime, in a thread --------------------------------------------------------------------------------

    def _hear_host(self, line: bytes) -> None:
        message = parse(line)
        if line.strip() and message is None:
            tell("a line of the host is dropped: it is not a JSON object")
            return
        passed = line if message is None else self._said(message, line)
        if passed is not None:
            self._carrier.to_client(passed)
        run_id = params_of(message or {}).get("run_id")
        if message is not None and message.get("method") == "run.cancel" and isinstance(run_id, str):
            self._carrier.on_loop(self._carrier.start, self._withdraw(run_id))

    def _said(self, message: Message, line: bytes) -> bytes | None:
        method = message.get("method")
        if method is None:
            if self._asking.has(message.get("id")):
                tell("an answer of the host is dropped: the ledger decides that request")
                return None
        elif method == "run.start":
            self._carrier.on_loop(self._asking.use_session, params_of(message).get("session_id"))
        elif method == "initialize" and self._headless:
            return line_of(with_confirm(message))
        return line

    # --- runtime to host, in a thread --------------------------------------------------------------------------------

    def _hear_runtime(self, line: bytes) -> None:
        if self._is_for_host(line):
            self._carrier.to_host(line)

    def _is_for_host(self, line: bytes) -> bool:
        message = parse(line)
        if message is None:
            return True
        if message.get("method") == "agent.event":
            work = self._asking.hear(message)
            if work is not None:
                self._carrier.on_loop(lambda: self._carrier.start(work()))
        elif message.get("method") == CONFIRM and isinstance(message.get("id"), str | int):
            return self._asked(message, line)
        return True

    def _asked(self, message: Message, line: bytes) -> bool:
        """Return whether the host has to answer this question."""
        if self._asking.has(message["id"]):
            return False  # a repeated id is the same question
        confirm = self._asking.take(message)
        if confirm is None:
            if self._headless:
                self._carrier.to_client(refusal(message["id"], "nobody is there to answer this"))
            return not self._headless
        # Looked up here, in the order of the lines.
        call = self._asking.call_asked(confirm)
        self._held[key_of(confirm.rpc_id)] = line
        self._carrier.on_loop(self._asking.begin, confirm, call, self._answered)
        return False

    # --- on the loop -------------------------------------------------------------------------------------------------

    async def _answered(self, confirm: Confirm, answer: bytes | None) -> None:
        line = self._held.pop(key_of(confirm.rpc_id))
        if answer is None and not self._headless:
            await self._carrier.tell_host(line)
            return
        nobody = refusal(confirm.rpc_id, "denied, because nobody could be asked: the ledger does not answer")
        await self._carrier.tell_client(answer or nobody)

    async def _withdraw(self, run_id: str) -> None:
        """Deny open questions after a cancel, since the runtime waits on: without a reason, which ends the turn."""
        for confirm in await self._asking.withdraw("asker_gave_up", run_id):
            self._held.pop(key_of(confirm.rpc_id), None)
            await self._carrier.tell_client(refusal(confirm.rpc_id))
