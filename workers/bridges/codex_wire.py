"""The approvals of Codex's app-server: requests of the server read, decisions built. No I/O.

Commands and file changes are judged; the content of a file change stands in the `item/started` before the request.
Other requests (network policies of their own, elicitations, questions to the user) pass to the client untouched.
"""

from __future__ import annotations

import shlex
from typing import Any, Final

from workers.bridges.race import (
    EndedCall,
    EndedQuestions,
    FileChange,
    HostAnswer,
    HostReply,
    RpcQuestion,
    edit_of,
    exactly,
    key_of,
    script_of,
)
from workers.bridges.session_ids import id_of
from workers.bridges.stdio import Message, keep, line_of, text_in
from workers.bridges.tool_calls import CallVerdict, ToolCall

_COMMAND: Final = "command"
_DIFF_CHARS_MAX: Final = 60_000
_SHOWN: Final = (
    "reason",
    "commandActions",
    "networkApprovalContext",
    "additionalPermissions",
    "environmentId",
    "grantRoot",
    "kind",
)


def command_call(params: dict[str, Any], item: dict[str, Any], request_id: str, cwd: str | None) -> ToolCall:
    """Return a command as a call. Text for a running command and network access are asked about as such."""
    raw = text_in(params, "command") or text_in(item, "command") or ""
    script = script_of(raw)
    said = _said(params, script)
    return ToolCall(
        request_id=request_id,
        tool_name="bash",
        input={"command": script},
        metadata={**_shown(params), "command": raw},
        call_id=id_of(str(params["itemId"])),
        message_id=_turn(params),
        cwd=cwd,
        always=_amendment(params) if said is None else None,
        said=said,
    )


def _said(params: dict[str, Any], script: str) -> dict[str, Any] | None:
    kind = params.get("kind") if isinstance(params.get("kind"), str) else _COMMAND
    context = params.get("networkApprovalContext")
    if isinstance(context, dict) or not script:
        # Permission for a command does not include a network destination.
        name = (text_in(context, "host") if isinstance(context, dict) else None) or "*"
        return {"permission": "network", "patterns": [name], "always": list(exactly(name))}
    if kind != _COMMAND:
        return {"permission": str(kind), "patterns": [script], "always": list(exactly(script))}
    return None


def file_change_call(params: dict[str, Any], item: dict[str, Any], request_id: str, cwd: str | None) -> ToolCall:
    """Return the files of a patch as a call, each judged; the content is in the metadata."""
    found = item.get("changes")
    changes = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    metadata = {**_shown(params), "diff": "\n".join(_diff(one) for one in changes)[:_DIFF_CHARS_MAX]}
    judged = edit_of([_change(one) for one in changes]) if all(text_in(one, "path") for one in changes) else None
    said: dict[str, Any] | None = None
    if judged is None:
        metadata["note"] = "the agent did not say which files it would change"
        judged, said = ("edit", {"files": []}), {"permission": "edit", "patterns": ["*"], "always": []}
    elif isinstance(params.get("grantRoot"), str):
        # Above this number of files: a whole folder, while the session lasts.
        root = f"{params['grantRoot'].rstrip('/')}/*"
        said = {"permission": "external_directory", "patterns": [root], "always": [root]}
    return ToolCall(
        request_id=request_id,
        tool_name=judged[0],
        input=judged[1],
        metadata=metadata,
        call_id=id_of(str(params["itemId"])),
        message_id=_turn(params),
        cwd=cwd,
        said=said,
    )


def _change(change: dict[str, Any]) -> FileChange:
    kind = change.get("kind")
    return FileChange(change["path"], text_in(kind, "move_path") if isinstance(kind, dict) else None)


def _turn(params: dict[str, Any]) -> str | None:
    turn = text_in(params, "turnId")
    return None if turn is None else id_of(turn)


def _amendment(params: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the prefix that Codex would remember, as the grant that an `always` makes instead."""
    words = params.get("proposedExecpolicyAmendment")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return None
    prefix = exactly(shlex.join(words))
    return (f"{prefix[0]} *",) if prefix else None


def _shown(params: dict[str, Any]) -> dict[str, Any]:
    return {name: params[name] for name in _SHOWN if params.get(name) is not None}


def _diff(change: dict[str, Any]) -> str:
    kind = change.get("kind")
    word = kind.get("type") if isinstance(kind, dict) else "change"
    return f"{word} {change.get('path')}\n{change.get('diff') or ''}"


COMMAND: Final = "item/commandExecution/requestApproval"
FILE_CHANGE: Final = "item/fileChange/requestApproval"
RESOLVED: Final = "serverRequest/resolved"
_STARTED: Final = "item/started"
_COMPLETED: Final = "item/completed"
_REPLY: Final[dict[str, HostReply]] = {
    "accept": "once",
    "acceptForSession": "once",
    "decline": "reject",
    "cancel": "reject",
}
_LINEAGE_DEPTH: Final = 16
PARENTS_KEPT_COUNT: Final = 1024
_ASKING_ITEMS: Final = ("commandExecution", "fileChange")
_RAN: Final = ("completed", "failed")
"""The states of an item that has run; the other, `declined`, has not."""

_AMENDED: Final = "acceptWithExecpolicyAmendment"
_NETWORK: Final = "applyNetworkPolicyAmendment"
_BY_SESSION: Final = "codex-session"
_BY_RULE: Final = "codex-rule"
ITEMS_KEPT_COUNT: Final = 256


class CodexWire:
    """One connection: the folders of its threads, the items started, and the parent of each thread.

    `run` is part of this connection's request ids only: Codex counts from 0 again, and a model's call ids may repeat.
    """

    agent = "codex"
    host = "codex"

    def __init__(self, run: str, *, interrupts: bool = False) -> None:
        self._run = run
        self._interrupts = interrupts
        self._cwd: dict[str, str] = {}
        self._items: dict[tuple[str, str], dict[str, Any]] = {}
        self._parents: dict[str, str] = {}

    def question_of(self, message: Message) -> RpcQuestion | str | None:
        method = message.get("method")
        if method not in (COMMAND, FILE_CHANGE):
            return None
        params = message.get("params")
        if "id" not in message or not isinstance(params, dict):
            return "it has no `id` or no `params`"
        thread, item_id = text_in(params, "threadId"), text_in(params, "itemId")
        if thread is None or item_id is None:
            return "it has no `threadId` or no `itemId`"
        cwd = params.get("cwd") if isinstance(params.get("cwd"), str) else self._cwd.get(thread)
        # The model chooses the folder of a command; the project is the folder in which its thread was started.
        project = self._cwd.get(thread, cwd)
        item = self._items.get((thread, item_id), {})
        key = key_of(message["id"])
        asked = text_in(params, "approvalId") or item_id
        request_id = id_of(f"{asked}.{self._run}.{key.strip(chr(34))}")
        call_of = command_call if method == COMMAND else file_change_call
        call = call_of(params, item, request_id, cwd)
        lineage = tuple(id_of(one) for one in self._lineage(thread))
        return RpcQuestion(key, message["id"], id_of(thread), project, call, message, lineage)

    def refuse(self, message: Message) -> bytes:
        return _decision(message.get("id"), "decline")

    def answer(self, question: RpcQuestion, verdict: CallVerdict) -> bytes:
        """Return `decline`, or `cancel`, which ends the turn as well. Codex accepts no corrected command."""
        if verdict.behaviour == "allow" and verdict.updated_input is None:
            return _decision(question.rpc_id, "accept")
        stops = self._interrupts and verdict.stops_agent
        return _decision(question.rpc_id, "cancel" if stops else "decline")

    def cancelled(self, question: RpcQuestion) -> bytes:
        return _decision(question.rpc_id, "cancel")

    def answer_of(self, question: RpcQuestion, message: Message, line: bytes) -> HostAnswer | None:
        """Turn a prefix to remember into a grant, and answer Codex with `accept`, so that it asks again.

        `acceptForSession` is for this very call, for which there is no grant so narrow: Codex remembers it itself, and
        the log says so.
        """
        result = message.get("result")
        decision = result.get("decision") if isinstance(result, dict) else None
        if isinstance(decision, str) and decision in _REPLY:
            return HostAnswer(_REPLY[decision], line, _BY_SESSION if decision == "acceptForSession" else None)
        if not isinstance(decision, dict):
            return None
        if _AMENDED in decision:
            amendment = decision[_AMENDED]
            words = amendment.get("execpolicy_amendment") if isinstance(amendment, dict) else None
            if question.call.always and words == question.message["params"].get("proposedExecpolicyAmendment"):
                return HostAnswer("always", _decision(question.rpc_id, "accept"))
            return HostAnswer("once", line, _BY_RULE)
        amendment = decision.get(_NETWORK)
        network = amendment.get("network_policy_amendment") if isinstance(amendment, dict) else None
        action = network.get("action") if isinstance(network, dict) else None
        if action in ("allow", "deny"):
            return HostAnswer("once" if action == "allow" else "reject", line, _BY_RULE)
        return None

    def withdrawal(self, question: RpcQuestion) -> bytes | None:
        """Return nothing: the server itself sends `serverRequest/resolved` when it has its answer."""
        return None

    def heard_from_host(self, message: Message) -> EndedQuestions | None:
        return None

    def heard_from_agent(self, message: Message) -> EndedQuestions | None:
        method = message.get("method")
        params = message.get("result" if method is None else "params")
        if not isinstance(params, dict):
            return None
        if method == RESOLVED and "requestId" in params:
            # Also sent when a turn ends or is interrupted: then the request was dropped without an answer.
            return EndedQuestions(key=key_of(params["requestId"]))
        self._hear_thread(params.get("thread"))
        if method in (_STARTED, _COMPLETED):
            self._hear_item(params.get("threadId"), params.get("item"), started=method == _STARTED)
        return None

    def call_ended(self, message: Message) -> EndedCall | None:
        params = message.get("params")
        item = params.get("item") if isinstance(params, dict) and message.get("method") == _COMPLETED else None
        if not isinstance(params, dict) or not isinstance(item, dict) or item.get("type") not in _ASKING_ITEMS:
            return None
        thread, item_id, status = params.get("threadId"), item.get("id"), item.get("status")
        if not isinstance(thread, str) or not isinstance(item_id, str) or status not in _RAN:
            return None
        return EndedCall(id_of(thread), id_of(item_id), status == "completed")

    def _hear_thread(self, thread: object) -> None:
        if isinstance(thread, dict) and isinstance(thread.get("id"), str) and isinstance(thread.get("cwd"), str):
            self._cwd[thread["id"]] = thread["cwd"]
            self._hear_parent(thread["id"], thread.get("parentThreadId"))

    def _hear_item(self, thread: object, item: object, *, started: bool) -> None:
        if not isinstance(item, dict) or not isinstance(thread, str) or not isinstance(item.get("id"), str):
            return
        for child, parent in children_of(item, thread):
            self._hear_parent(child, parent)
        if item.get("type") not in _ASKING_ITEMS:
            return
        key = (thread, item["id"])
        if not started:
            self._items.pop(key, None)
            return
        keep(self._items, key, item, ITEMS_KEPT_COUNT)

    def _hear_parent(self, child: object, parent: object) -> None:
        """Set a thread's parent once; a parent that would make the thread its own ancestor is ignored."""
        if not isinstance(child, str) or not isinstance(parent, str) or not child or not parent:
            return
        if child in self._parents or child == parent or child in self._lineage(parent):
            return
        keep(self._parents, child, parent, PARENTS_KEPT_COUNT)

    def _lineage(self, thread: str) -> list[str]:
        found: list[str] = []
        while (parent := self._parents.get(thread)) is not None and len(found) < _LINEAGE_DEPTH:
            found.append(parent)
            thread = parent
        return found


def children_of(item: dict[str, Any], thread: str) -> list[tuple[object, object]]:
    """Return each thread that an item of `thread` started, with the thread that started it."""
    if item.get("type") == "subAgentActivity" and item.get("kind") == "started":
        return [(item.get("agentThreadId"), thread)]
    if item.get("type") == "collabAgentToolCall" and item.get("tool") == "spawnAgent":
        started = item.get("receiverThreadIds")
        return [(one, item.get("senderThreadId")) for one in started] if isinstance(started, list) else []
    return []


def _decision(rpc_id: Any, decision: str) -> bytes:
    return line_of({"id": rpc_id, "result": {"decision": decision}})
