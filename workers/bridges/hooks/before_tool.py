"""The hooks of Gemini CLI and Qwen Code, which have one event each, before a tool runs: its JSON in, the ledger's answer out.

They run before every call of a tool, with the exact input. Both agents take any exit code but 0 and 2 for a warning, or
no opinion, and run the tool; so every failure is a deny, or exit code 2.
"""

from __future__ import annotations

import json

from workers.bridges.hooks.exchange import say
from workers.bridges.hooks.question import HookAnswer, decided, input_of, text_of
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.session_ids import id_of, new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

EVENTS = {"gemini": "BeforeTool", "qwen": "PreToolUse"}
LIMIT_SECONDS = 60.0
"""Both agents' own limit if their settings name none."""

TOOLS: Mapping[str, Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "gemini": {
        "run_shell_command": ("bash", {"dir_path": "workdir"}),
        "write_file": ("write", {"file_path": "filePath"}),
        "replace": ("edit", {"file_path": "filePath"}),
        "read_file": ("read", {"file_path": "filePath"}),
        "list_directory": ("list", {"dir_path": "path"}),
        "glob": ("glob", {"dir_path": "path"}),
        "grep_search": ("grep", {"dir_path": "path"}),
        "search_file_content": ("grep", {"dir_path": "path"}),
        "google_web_search": ("websearch", {}),
    },
    "qwen": {
        "run_shell_command": ("bash", {"directory": "workdir"}),
        "monitor": ("bash", {"directory": "workdir"}),
        "write_file": ("write", {"file_path": "filePath"}),
        "edit": ("edit", {"file_path": "filePath"}),
        "notebook_edit": ("edit", {"notebook_path": "filePath"}),
        "read_file": ("read", {"file_path": "filePath"}),
        "list_directory": ("list", {}),
        "glob": ("glob", {}),
        "grep_search": ("grep", {}),
        "web_fetch": ("webfetch", {}),
        "web_search": ("websearch", {}),
    },
}
"""By an agent's name of a tool: OpenCode's name of it, and its names of the members that the agent calls otherwise."""


def main(agent: str, words: Sequence[str]) -> int:
    """Read one event from stdin, answer it, and return the exit code. An unknown event is blocked."""
    return run(agent, HookSettings.read(words, "opencode", LIMIT_SECONDS))


def run(agent: str, settings: HookSettings) -> int:
    asked, answered = (asked_by_gemini, gemini_answer) if agent == "gemini" else (asked_by_qwen, qwen_answer)
    event, answer = decided(settings, agent, (EVENTS[agent],), asked)
    said = None if answer is None else answered(answer, text_of(event, "tool_name"), input_of(event))
    if said is not None:
        say(json.dumps(said))
    return 0


def asked_by_gemini(event: dict[str, Any]) -> dict[str, Any]:
    """Return the call's ask. Gemini gives it no id, so each run of the hook is a request of its own."""
    tool, tool_input = text_of(event, "tool_name"), input_of(event)
    if tool == "web_fetch":
        # The prompt holds the addresses.
        prompt = tool_input.get("prompt")
        about = prompt if isinstance(prompt, str) and prompt else "*"
        judged = {"tool_name": "webfetch", "input": tool_input, "permission": "webfetch", "patterns": [about]}
    else:
        judged = _renamed("gemini", tool, tool_input)
    names = ("mcp_context", "original_request_name")
    return {"request_id": new_id("hook"), **judged, "metadata": {name: event[name] for name in names if name in event}}


def asked_by_qwen(event: dict[str, Any]) -> dict[str, Any]:
    """Return the call's ask. `tool_use_id` is new in each run of the hook, `tool_call_id` is the model's."""
    run_id, call_id = event.get("tool_use_id"), event.get("tool_call_id")
    body: dict[str, Any] = {
        "request_id": id_of(run_id) if isinstance(run_id, str) and run_id else new_id("hook"),
        **_renamed("qwen", text_of(event, "tool_name"), input_of(event)),
        "metadata": {name: event[name] for name in ("permission_mode",) if name in event},
        "agent": event.get("agent_id") or "qwen",
    }
    if isinstance(call_id, str) and call_id:
        body["tool"] = {"call_id": id_of(call_id), "message_id": id_of(call_id)}
    return body


def gemini_answer(answer: HookAnswer, tool: str, tool_input: dict[str, Any]) -> dict[str, Any] | None:
    """Return Gemini's output; None is no opinion. An allow does not skip the question of Gemini's own rules."""
    if answer.behaviour == "agent":
        return None
    if answer.behaviour == "deny":
        return {"decision": "deny", "reason": answer.message}
    if answer.updated_input is None:
        return {"decision": "allow"}
    corrected = _named_back("gemini", tool, answer.updated_input)
    if not set(tool_input) <= set(corrected):
        # Gemini merges it into the first input: removed members would still run.
        answer.not_told()
        return {"decision": "deny", "reason": f"allowed only as: {json.dumps(corrected)}"}
    return {"decision": "allow", "hookSpecificOutput": {"hookEventName": EVENTS["gemini"], "tool_input": corrected}}


def qwen_answer(answer: HookAnswer, tool: str, _tool_input: dict[str, Any]) -> dict[str, Any]:
    """Return the decision for Qwen. `ask` is its own question; without a user to ask, Qwen refuses the call.

    Its documentation lets the hook change the input; version 0.24.4 runs the first one all the same, so a corrected
    input is a deny.
    """
    decision, reason = "ask" if answer.behaviour == "agent" else answer.behaviour, answer.message
    if answer.updated_input is not None:
        answer.not_told()
        decision, reason = "deny", f"allowed only as: {json.dumps(_named_back('qwen', tool, answer.updated_input))}"
    said = {"hookEventName": EVENTS["qwen"], "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": said}


def _renamed(agent: str, tool: str, tool_input: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an ask that name tool and input. A tool that is not listed keeps its names."""
    name, members = TOOLS[agent].get(tool, (tool, {}))
    return {"tool_name": name, "input": {members.get(key, key): value for key, value in tool_input.items()}}


def _named_back(agent: str, tool: str, ours: dict[str, Any]) -> dict[str, Any]:
    back = {renamed: member for member, renamed in TOOLS[agent].get(tool, (tool, {}))[1].items()}
    return {back.get(key, key): value for key, value in ours.items()}
