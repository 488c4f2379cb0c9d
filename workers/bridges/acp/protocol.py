"""The permissions of ACP v1: reads `session/request_permission` and answers by the kinds of its options. No I/O.

An option's kind is its meaning; its id is sent. Kinds may repeat, and any may be missing. An allow takes the first
`allow_once` and nothing wider: a longer grant is recorded in the ledger, where it can be revoked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from workers.bridges.acp.modes import is_silent, mode_begun, mode_changed
from workers.bridges.acp.tools import call_of, input_shown
from workers.bridges.messages import Message, line_of
from workers.bridges.rpc import EndedCall, EndedQuestions, HostAnswer, RpcQuestion, key_of
from workers.bridges.session_ids import id_of
from workers.bridges.tool_calls import CallVerdict

ASK: Final = "session/request_permission"
CANCEL: Final = "session/cancel"
WITHDRAWN: Final = "$/cancel_request"
_NEW: Final = frozenset({"session/new", "session/fork"})
_AGAIN: Final = frozenset({"session/load", "session/resume"})
_KEPT: Final = ("kind", "title", "rawInput", "content", "locations")
_ENDED: Final = ("completed", "failed")
CALLS_KEPT_COUNT: Final = 128
TRACE_CHARS_MAX: Final = 512


class AcpWire:
    """One connection: the folders of its sessions, and the tool calls announced before they are asked about.

    `run` is part of this connection's request ids only: agents count from 0 again, and a model's call ids may repeat.
    """

    host = "editor"

    def __init__(self, agent: str, run: str, tell: Callable[[str], None] = lambda _: None) -> None:
        """`tell` gets messages for the person who runs the bridge."""
        self.agent = agent
        self._tell = tell
        self._mode_told: str | None = None
        self._run = run
        self._opening: dict[str, str] = {}
        self._cwd: dict[str, str] = {}
        self._calls: dict[tuple[str, str], dict[str, Any]] = {}

    def question_of(self, message: Message) -> RpcQuestion | str | None:
        if message.get("method") != ASK:
            return None
        params = message.get("params")
        if "id" not in message or not isinstance(params, dict):
            return "it has no `id` or no `params`"
        session, tool_call = params.get("sessionId"), params.get("toolCall")
        if not isinstance(session, str) or not session:
            return "it has no `sessionId`"
        if not isinstance(tool_call, dict) or not _is_text(tool_call.get("toolCallId")):
            return "it has no `toolCall` with a `toolCallId`"
        if not options_of(message):
            return "it offers no option that this bridge knows"
        known = self._calls.get((session, tool_call["toolCallId"]), {})
        said = _said(known, {name: value for name, value in tool_call.items() if value is not None})
        key, cwd = key_of(message["id"]), self._cwd.get(session)
        request_id = id_of(f"{tool_call['toolCallId']}.{self._run}.{key.strip(chr(34))}")
        call = call_of(said, request_id, cwd)
        trace = _trace_of(params)
        if trace:
            call = call._replace(said={**(call.said or {}), "trace": trace})
        return RpcQuestion(key, message["id"], id_of(session), cwd, call, message)

    def refuse(self, message: Message) -> bytes:
        return _result(message.get("id"), {"outcome": "cancelled"})

    def answer(self, question: RpcQuestion, verdict: CallVerdict) -> bytes:
        """Return the option of the right kind; without one, `cancelled` and never a wider option."""
        # ACP cannot carry a corrected input, and the input that was asked about was not allowed.
        allowed = verdict.behaviour == "allow" and verdict.updated_input is None
        option = option_of(question.message, "allow_once" if allowed else "reject_once")
        if option is None:
            return self.cancelled(question)
        told = verdict.message if verdict.message and not allowed else None
        return _result(question.rpc_id, {"outcome": "selected", "optionId": option}, told)

    def cancelled(self, question: RpcQuestion) -> bytes:
        return _result(question.rpc_id, {"outcome": "cancelled"})

    def answer_of(self, question: RpcQuestion, message: Message, line: bytes) -> HostAnswer | None:
        """Record `allow_always` as a grant of the session, and answer the agent with `allow_once`.

        An agent that remembered the answer itself would not ask again: nothing would be recorded or revocable.
        """
        result = message.get("result")
        outcome = result.get("outcome") if isinstance(result, dict) else None
        if not isinstance(outcome, dict):
            return None
        if outcome.get("outcome") == "cancelled":
            return HostAnswer("cancelled", line)
        chosen = outcome.get("optionId")
        kind = next((kind for option, kind in options_of(question.message) if option == chosen), None)
        if kind == "allow_once":
            return HostAnswer("once", line)
        if kind in ("reject_once", "reject_always"):
            return HostAnswer("reject", line)
        if kind == "allow_always":
            once = option_of(question.message, "allow_once")
            passed = line if once is None else _result(question.rpc_id, {"outcome": "selected", "optionId": once})
            return HostAnswer("session", passed)
        return None

    def withdrawal(self, question: RpcQuestion) -> bytes | None:
        """Return version 2's cancel notification; without it an editor keeps a prompt open whose answer is ignored."""
        return line_of({"jsonrpc": "2.0", "method": WITHDRAWN, "params": {"requestId": question.rpc_id}})

    def heard_from_host(self, message: Message) -> EndedQuestions | None:
        method, params = message.get("method"), message.get("params")
        if not isinstance(params, dict):
            return None
        session, cwd = params.get("sessionId"), params.get("cwd")
        if method == CANCEL and isinstance(session, str):
            # The editor must answer its prompts with `cancelled`. It has not seen all of them, so the bridge answers
            # these.
            return EndedQuestions(session=id_of(session), answers_agent=True)
        if method in _NEW and isinstance(cwd, str):
            self._opening[key_of(message.get("id"))] = cwd
        if method in _AGAIN and isinstance(cwd, str) and isinstance(session, str):
            self._cwd[session] = cwd
        return None

    def heard_from_agent(self, message: Message) -> EndedQuestions | None:
        method, params = message.get("method"), message.get("params")
        if method is None:
            self._hear_answer(message)
        elif method == WITHDRAWN and isinstance(params, dict) and "requestId" in params:
            return EndedQuestions(key=key_of(params["requestId"]), answers_agent=True)
        elif isinstance(params, dict) and isinstance(params.get("update"), dict):
            self._hear_update(params.get("sessionId"), params["update"])
        return None

    def call_ended(self, message: Message) -> EndedCall | None:
        params = message.get("params")
        update = params.get("update") if isinstance(params, dict) and "method" in message else None
        if not isinstance(params, dict) or not isinstance(update, dict) or update.get("status") not in _ENDED:
            return None
        session, call_id = params.get("sessionId"), update.get("toolCallId")
        if not isinstance(session, str) or not isinstance(call_id, str):
            return None
        return EndedCall(id_of(session), id_of(call_id), update["status"] == "completed")

    def _hear_answer(self, message: Message) -> None:
        cwd = self._opening.pop(key_of(message.get("id")), None)
        result = message.get("result")
        if isinstance(result, dict):
            self._hear_mode(mode_begun(result))
        if cwd is not None and isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self._cwd[result["sessionId"]] = cwd

    def _hear_mode(self, mode: str | None) -> None:
        if mode is None or mode == self._mode_told:
            return
        if is_silent(mode):
            self._tell(
                f"`{self.agent}` is in mode `{mode}`: calls that this mode allows are neither asked about nor "
                "recorded; choose a mode that asks"
            )
        self._mode_told = mode

    def _hear_update(self, session: object, update: dict[str, Any]) -> None:
        self._hear_mode(mode_changed(update))
        call_id = update.get("toolCallId")
        if not isinstance(session, str) or not isinstance(call_id, str):
            return
        if update.get("status") in _ENDED:
            self._calls.pop((session, call_id), None)
            return
        known = self._calls.setdefault((session, call_id), {})
        known.update({name: update[name] for name in _KEPT if update.get(name) is not None})
        if len(self._calls) > CALLS_KEPT_COUNT:
            self._calls.pop(next(iter(self._calls)))


def options_of(message: Message) -> list[tuple[str, str]]:
    """Return id and kind of each option that has both."""
    options = message["params"].get("options")
    objects = [one for one in options if isinstance(one, dict)] if isinstance(options, list) else []
    pairs = [(one.get("optionId"), one.get("kind")) for one in objects]
    return [(option, kind) for option, kind in pairs if isinstance(option, str) and isinstance(kind, str)]


def option_of(message: Message, kind: str) -> str | None:
    """Return the first option of a kind."""
    return next((option for option, its_kind in options_of(message) if its_kind == kind), None)


def _said(known: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Return a call as the request names it, completed by what was announced before.

    Kimi Code CLI asks about `Bash` after it has shown the input as a text. The title is judged only if the request
    itself says that the title is what would be executed.
    """
    said = {**known, **asked}
    if not isinstance(said.get("rawInput"), dict):
        shown = input_shown(known.get("content"))
        if shown is not None:
            said["rawInput"] = shown
        elif said.get("kind") == "execute" and "kind" not in asked:
            said["kind"] = "other"
    return said


def _trace_of(params: dict[str, Any]) -> dict[str, str]:
    """Return the trace context in `_meta`, where ACP and MCP have it. The gateway checks it."""
    meta = params.get("_meta")
    found = {name: meta.get(name) for name in ("traceparent", "tracestate")} if isinstance(meta, dict) else {}
    return {name: value for name, value in found.items() if isinstance(value, str) and len(value) <= TRACE_CHARS_MAX}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _result(rpc_id: Any, outcome: dict[str, Any], told: str | None = None) -> bytes:
    result: dict[str, Any] = {"outcome": outcome}
    if told:
        # ACP has no field for a reason; an agent that supports ours can pass it on to its model.
        result["_meta"] = {"permission-ledger": {"message": told}}
    return line_of({"jsonrpc": "2.0", "id": rpc_id, "result": result})
