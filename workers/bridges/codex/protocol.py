"""Codex's app-server, as far as approvals go: requests of the server read, decisions made. No I/O.

Commands and file changes are judged; what a file change would change stands in the `item/started` before the request.
Other requests (network policies of their own, elicitations, questions to the user) pass to the client untouched.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from workers.bridges.codex.tools import command_call, file_change_call
from workers.bridges.judging import Verdict
from workers.bridges.naming import id_of
from workers.bridges.racing import Ending, HostReply, Message, Question, key_of, line_of

COMMAND: Final = "item/commandExecution/requestApproval"
FILE_CHANGE: Final = "item/fileChange/requestApproval"
RESOLVED: Final = "serverRequest/resolved"
_STARTED: Final = "item/started"
_COMPLETED: Final = "item/completed"
_WORDS: Final = (b'"serverRequest/resolved"', b'"item/started"', b'"item/completed"', b'"thread/started"')
_REPLY: Final[dict[str, HostReply]] = {
    "accept": "once",
    "acceptForSession": "session",
    "decline": "reject",
    "cancel": "reject",
}
ITEMS_KEPT_COUNT: Final = 512


class CodexWire:
    """One connection: where its threads work, and which items were started."""

    agent = "codex"
    host = "codex"

    def __init__(self, *, interrupts: bool = False) -> None:
        self._interrupts = interrupts
        self._cwd: dict[str, str] = {}
        self._items: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def may_ask(self, line: bytes) -> bool:
        return b'/requestApproval"' in line

    def notes(self, line: bytes) -> bool:
        return any(word in line for word in _WORDS)

    def question_of(self, message: Message) -> Question | str | None:
        method = message.get("method")
        if method not in (COMMAND, FILE_CHANGE):
            return None
        params = message.get("params")
        if "id" not in message or not isinstance(params, dict):
            return "it has no `id` or no `params`"
        thread, item_id = params.get("threadId"), params.get("itemId")
        if not isinstance(thread, str) or not isinstance(item_id, str) or not thread or not item_id:
            return "it has no `threadId` or no `itemId`"
        cwd = params.get("cwd") if isinstance(params.get("cwd"), str) else self._cwd.get(thread)
        item = self._items.get(item_id, {})
        key = key_of(message)
        call = command_call(params, item, key, cwd) if method == COMMAND else file_change_call(params, item, key, cwd)
        return Question(key, message["id"], id_of(thread), cwd, call, message)

    def refuse(self, message: Message) -> bytes:
        return _decision(message.get("id"), "decline")

    def answer(self, question: Question, verdict: Verdict) -> bytes:
        """`decline` lets the turn go on, `cancel` interrupts it. There is no way to hand a corrected command over."""
        if verdict.behaviour == "allow" and verdict.updated_input is None:
            return _decision(question.rpc_id, "accept")
        stops = self._interrupts and verdict.stops_agent
        return _decision(question.rpc_id, "cancel" if stops else "decline")

    def cancelled(self, question: Question) -> bytes:
        return _decision(question.rpc_id, "cancel")

    def reply_of(self, question: Question, message: Message) -> HostReply | None:
        result = message.get("result")
        decision = result.get("decision") if isinstance(result, dict) else None
        if isinstance(decision, dict) and "acceptWithExecpolicyAmendment" in decision:
            return "always"
        return _REPLY.get(decision) if isinstance(decision, str) else None

    def withdrawal(self, question: Question) -> bytes | None:
        """Nothing: the server itself says `serverRequest/resolved` when it has its answer."""
        return None

    def heard_from_host(self, message: Message) -> Ending | None:
        return None

    def heard_from_agent(self, message: Message) -> Ending | None:
        method, params = message.get("method"), message.get("params")
        if not isinstance(params, dict):
            return None
        if method == RESOLVED and "requestId" in params:
            # Also sent when a turn ends or is interrupted: then the request was dropped without an answer.
            return Ending(key=key_of({"id": params["requestId"]}))
        thread = params.get("thread")
        if isinstance(thread, dict) and isinstance(thread.get("id"), str) and isinstance(thread.get("cwd"), str):
            self._cwd[thread["id"]] = thread["cwd"]
        item = params.get("item")
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            if method == _STARTED:
                self._items[item["id"]] = item
                if len(self._items) > ITEMS_KEPT_COUNT:
                    self._items.popitem(last=False)
            elif method == _COMPLETED:
                self._items.pop(item["id"], None)
        return None


def _decision(rpc_id: Any, decision: str) -> bytes:
    return line_of({"id": rpc_id, "result": {"decision": decision}})
