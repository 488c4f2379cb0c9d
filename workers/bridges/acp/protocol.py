"""ACP v1, as far as permissions go: `session/request_permission` read, and answered by the kinds of its options. No I/O.

An option's kind is what it means, its id is what is sent; kinds may repeat, and any may be missing. An allow takes the
first `allow_once` and nothing wider: what a person allowed for longer stands in the ledger, where it can be revoked.
"""

from __future__ import annotations

from typing import Any, Final

from workers.bridges.acp.tools import call_of
from workers.bridges.judging import Verdict
from workers.bridges.naming import id_of
from workers.bridges.racing import Ending, HostReply, Message, Question, key_of, line_of

ASK: Final = "session/request_permission"
CANCEL: Final = "session/cancel"
NEW: Final = "session/new"
_OPENING: Final = frozenset({NEW, "session/load", "session/resume", "session/fork"})
_WORDS: Final = (b'"session/cancel"', b'"session/new"', b'"session/load"', b'"session/resume"', b'"sessionId"')
_REPLY: Final[dict[str, HostReply]] = {
    "allow_once": "once",
    "allow_always": "always",
    "reject_once": "reject",
    "reject_always": "reject",
}
WITHDRAWN: Final = "$/cancel_request"
CALLS_KEPT_COUNT: Final = 512


class AcpWire:
    """One connection: where its sessions work, and what was said of tool calls before they are asked about."""

    host = "editor"

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self._opening: dict[str, str] = {}
        self._cwd: dict[str, str] = {}
        self._calls: dict[tuple[str, str], dict[str, Any]] = {}

    def may_ask(self, line: bytes) -> bool:
        return b'"session/request_permission"' in line

    def notes(self, line: bytes) -> bool:
        return any(word in line for word in _WORDS)

    def question_of(self, message: Message) -> Question | str | None:
        if message.get("method") != ASK:
            return None
        params = message.get("params")
        if "id" not in message or not isinstance(params, dict):
            return "it has no `id` or no `params`"
        session, tool_call = params.get("sessionId"), params.get("toolCall")
        if not isinstance(session, str) or not session:
            return "it has no `sessionId`"
        if not isinstance(tool_call, dict) or not isinstance(tool_call.get("toolCallId"), str):
            return "it has no `toolCall` with a `toolCallId`"
        if not options_of(message):
            return "it offers no option that can be read"
        known = self._calls.get((session, tool_call["toolCallId"]), {})
        cwd = self._cwd.get(session)
        call = call_of({**known, **{k: v for k, v in tool_call.items() if v is not None}}, key_of(message), cwd)
        return Question(key_of(message), message["id"], id_of(session), cwd, call, message)

    def refuse(self, message: Message) -> bytes:
        return _result(message.get("id"), {"outcome": "cancelled"})

    def answer(self, question: Question, verdict: Verdict) -> bytes:
        """The option of the right kind; without one the request counts as cancelled, never as something wider."""
        allowed = verdict.behaviour == "allow"
        if allowed and verdict.updated_input is not None:
            # There is no way to hand the corrected input over, and the one that was asked about was not allowed.
            allowed = False
        kind = "allow_once" if allowed else "reject_once"
        option = next((one for one, its_kind in options_of(question.message) if its_kind == kind), None)
        if option is None:
            return self.cancelled(question)
        outcome: dict[str, Any] = {"outcome": "selected", "optionId": option}
        told = verdict.message if verdict.message and not allowed else None
        return _result(question.rpc_id, outcome, told)

    def cancelled(self, question: Question) -> bytes:
        return _result(question.rpc_id, {"outcome": "cancelled"})

    def reply_of(self, question: Question, message: Message) -> HostReply | None:
        result = message.get("result")
        outcome = result.get("outcome") if isinstance(result, dict) else None
        if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
            return None
        chosen = outcome.get("optionId")
        kind = next((kind for option, kind in options_of(question.message) if option == chosen), "")
        return _REPLY.get(kind)

    def withdrawal(self, question: Question) -> bytes | None:
        """Version 2's notification; an editor that does not know it keeps a prompt whose answer changes nothing."""
        return line_of({"jsonrpc": "2.0", "method": WITHDRAWN, "params": {"requestId": question.rpc_id}})

    def heard_from_host(self, message: Message) -> Ending | None:
        method, params = message.get("method"), message.get("params")
        if not isinstance(params, dict):
            return None
        session = params.get("sessionId")
        if method == CANCEL and isinstance(session, str):
            # The editor must answer what it was asked with `cancelled`; what it was not asked, we answer.
            return Ending(session=id_of(session), answers_agent=True)
        cwd = params.get("cwd")
        if method in _OPENING and isinstance(cwd, str):
            if isinstance(session, str):
                self._cwd[session] = cwd
            else:
                self._opening[key_of(message)] = cwd
        return None

    def heard_from_agent(self, message: Message) -> Ending | None:
        result, params = message.get("result"), message.get("params")
        if isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            cwd = self._opening.pop(key_of(message), None)
            if cwd is not None:
                self._cwd[result["sessionId"]] = cwd
        if isinstance(params, dict) and isinstance(params.get("update"), dict):
            self._hear_update(params.get("sessionId"), params["update"])
        return None

    def _hear_update(self, session: object, update: dict[str, Any]) -> None:
        call_id = update.get("toolCallId")
        if not isinstance(session, str) or not isinstance(call_id, str):
            return
        if update.get("status") in ("completed", "failed"):
            self._calls.pop((session, call_id), None)
            return
        known = self._calls.setdefault((session, call_id), {})
        known.update({name: value for name, value in update.items() if value is not None and name != "sessionUpdate"})
        if len(self._calls) > CALLS_KEPT_COUNT:
            self._calls.pop(next(iter(self._calls)))


def options_of(message: Message) -> list[tuple[str, str]]:
    """Id and kind of each option that has both."""
    options = message["params"].get("options")
    objects = [one for one in options if isinstance(one, dict)] if isinstance(options, list) else []
    pairs = [(one.get("optionId"), one.get("kind")) for one in objects]
    return [(option, kind) for option, kind in pairs if isinstance(option, str) and isinstance(kind, str)]


def _result(rpc_id: Any, outcome: dict[str, Any], told: str | None = None) -> bytes:
    result: dict[str, Any] = {"outcome": outcome}
    if told:
        # ACP has no field for a reason; an agent that knows ours can pass it on to its model.
        result["_meta"] = {"permission-ledger": {"message": told}}
    return line_of({"jsonrpc": "2.0", "id": rpc_id, "result": result})
