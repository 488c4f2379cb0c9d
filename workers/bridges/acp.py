"""The permissions of the Agent Client Protocol, v1: reads `session/request_permission` and answers by the kinds of its options. No I/O.

An option's kind is its meaning; its id is sent. Kinds may repeat, and any may be missing. A call is judged by its raw
input if the agent sends one, else by its visible content.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from workers.bridges.race import (
    EndedCall,
    EndedQuestions,
    FileChange,
    HostAnswer,
    RpcQuestion,
    edit_of,
    exactly,
    key_of,
    script_of,
)
from workers.bridges.session_ids import id_of
from workers.bridges.stdio import Message, line_of, text_in
from workers.bridges.tool_calls import CallVerdict, ToolCall

_FILE_MEMBERS: Final = ("filePath", "filepath", "file_path", "path", "abs_path")
_CHANGING: Final = frozenset({"edit", "delete", "move"})
_TEXT_CHARS_MAX: Final = 4000
_CUT: Final = ("…", "...")


class JudgedInput(NamedTuple):
    """The tool and input that rules judge, and their source `on`. `said`: further members of the ask."""

    tool: str
    input: dict[str, Any]
    on: str
    said: dict[str, Any] | None = None


def call_of(tool_call: dict[str, Any], request_id: str, cwd: str | None) -> ToolCall:
    """Return the call. `request_id` is kept beside the call's own id, since one call may ask twice."""
    kind = tool_call.get("kind") if isinstance(tool_call.get("kind"), str) else "other"
    title = tool_call.get("title") if isinstance(tool_call.get("title"), str) else ""
    raw = tool_call.get("rawInput") if isinstance(tool_call.get("rawInput"), dict) else {}
    judged = _judged(str(kind), str(title), dict(raw or {}), tool_call, cwd) or _by_title(str(kind), str(title), raw)
    return ToolCall(
        request_id=request_id,
        tool_name=judged.tool,
        input=judged.input,
        metadata=_metadata(tool_call, str(kind), str(title), judged.on),
        call_id=id_of(str(tool_call["toolCallId"])),
        cwd=cwd,
        said=judged.said,
    )


def input_shown(content: object) -> dict[str, Any] | None:
    """Return the input in a call's content if it is one text of a JSON object, else None."""
    texts = [text_in(part["content"], "text") for part in _objects(content) if isinstance(part.get("content"), dict)]
    if len(texts) != 1 or texts[0] is None:
        return None
    try:
        found = json.loads(texts[0])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _judged(
    kind: str, title: str, raw: dict[str, Any], tool_call: dict[str, Any], cwd: str | None
) -> JudgedInput | None:
    if kind == "execute":
        return _command(title, raw)
    if kind in _CHANGING:
        return _change(kind, raw, tool_call, cwd)
    if kind == "read":
        return _read(raw, tool_call, cwd)
    if kind == "fetch" and text_in(raw, "url"):
        return JudgedInput("webfetch", raw, "rawInput")
    return None


def _command(title: str, raw: dict[str, Any]) -> JudgedInput | None:
    command = raw.get("command")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return JudgedInput("bash", {**raw, "command": script_of(command)}, "rawInput")
    if isinstance(command, str) and command:
        return JudgedInput("bash", raw, "rawInput")
    # A title that is cut off may show only the harmless half of a command.
    if raw or not title or title.endswith(_CUT):
        return None
    return JudgedInput("bash", {"command": title}, "title")


def _change(kind: str, raw: dict[str, Any], tool_call: dict[str, Any], cwd: str | None) -> JudgedInput | None:
    """Return all files that input and diffs name; locations count for a move, or if nothing else names a file."""
    named = [text_in(raw, member) for member in _FILE_MEMBERS]
    diffs = [text_in(part, "path") for part in _objects(tool_call.get("content")) if part.get("type") == "diff"]
    paths = _whole([*named, *diffs], cwd)
    on = "rawInput" if any(named) else "what is shown"
    if kind == "move" or not paths:
        paths = _whole([*paths, *_locations(tool_call)], cwd)
    found = edit_of([FileChange(path) for path in paths])
    return None if found is None else JudgedInput(found[0], {**raw, **found[1]}, on)


def _read(raw: dict[str, Any], tool_call: dict[str, Any], cwd: str | None) -> JudgedInput | None:
    named = _whole([text_in(raw, member) for member in _FILE_MEMBERS], cwd)
    paths = named or _whole(_locations(tool_call), cwd)
    if len(paths) != 1:
        return None
    return JudgedInput("read", {**raw, "filePath": paths[0]}, "rawInput" if named else "what is shown")


def _by_title(kind: str, title: str, raw: dict[str, Any] | None) -> JudgedInput:
    """Return a permission named as the call's kind, since only the title is known: never a command or a file."""
    said = {"permission": kind, "patterns": [title or "*"], "always": list(exactly(title))}
    return JudgedInput(kind, raw or {"title": title}, "title", said)


def _whole(paths: list[str | None], cwd: str | None) -> list[str]:
    return list(dict.fromkeys(posixpath.join(cwd or "", path) for path in paths if path))


def _locations(tool_call: dict[str, Any]) -> list[str | None]:
    return [text_in(one, "path") for one in _objects(tool_call.get("locations"))]


def _metadata(tool_call: dict[str, Any], kind: str, title: str, judged_on: str) -> dict[str, Any]:
    content = _objects(tool_call.get("content"))
    diffs = [_diff(part) for part in content if part.get("type") == "diff"]
    texts = [text_in(part["content"], "text") for part in content if isinstance(part.get("content"), dict)]
    shown: dict[str, Any] = {"kind": kind, "title": title[:_TEXT_CHARS_MAX], "judged_on": judged_on}
    if diffs:
        shown["diff"] = "\n".join(diffs)[: 4 * _TEXT_CHARS_MAX]
    if any(texts):
        shown["text"] = "\n".join(text for text in texts if text)[:_TEXT_CHARS_MAX]
    if judged_on != "rawInput":
        shown["note"] = "the agent sent no exact input; this was judged on what it shows"
    return shown


def _diff(part: dict[str, Any]) -> str:
    old, new = ((text_in(part, name) or "").splitlines() for name in ("oldText", "newText"))
    return "\n".join([f"--- {part.get('path')}", *(f"-{line}" for line in old), *(f"+{line}" for line in new)])


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


_SILENT: Final = frozenset(
    {
        "acceptedits",
        "auto",
        "autoaccept",
        "autoedit",
        "autopilot",
        "bypasspermissions",
        "dontask",
        "fullaccess",
        "agentfullaccess",
        "smartapprove",
        "yolo",
    }
)
"""The modes in which an agent decides by itself what it would ask about in another; any other counts as one that asks.

Ids in lower case without punctuation, since each agent spells them differently."""


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
        if not isinstance(tool_call, dict) or not text_in(tool_call, "toolCallId"):
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
        if isinstance(result, dict) and isinstance(result.get("modes"), dict):
            self._hear_mode(result["modes"].get("currentModeId"))
        if cwd is not None and isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self._cwd[result["sessionId"]] = cwd

    def _hear_mode(self, mode: object) -> None:
        if not isinstance(mode, str) or mode == self._mode_told:
            return
        if "".join(filter(str.isalnum, mode.lower())) in _SILENT:
            self._tell(
                f"`{self.agent}` is in mode `{mode}`: calls that this mode allows are neither asked about nor "
                "recorded; choose a mode that asks"
            )
        self._mode_told = mode

    def _hear_update(self, session: object, update: dict[str, Any]) -> None:
        if update.get("sessionUpdate") == "current_mode_update":
            self._hear_mode(update.get("currentModeId"))
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


def _result(rpc_id: Any, outcome: dict[str, Any], told: str | None = None) -> bytes:
    result: dict[str, Any] = {"outcome": outcome}
    if told:
        # ACP has no field for a reason; an agent that supports ours can pass it on to its model.
        result["_meta"] = {"permission-ledger": {"message": told}}
    return line_of({"jsonrpc": "2.0", "id": rpc_id, "result": result})
