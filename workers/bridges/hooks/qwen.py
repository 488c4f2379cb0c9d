"""Qwen Code's PreToolUse hook: its JSON in, the ledger's answer out.

It runs before every call of a tool, in the terminal and over ACP, with the exact input. Qwen takes any exit code but 0
and 2 for no opinion, and runs the tool; so every failure is a deny, or exit code 2. Its documentation lets PreToolUse
change the input; version 0.24.4 runs the first one all the same, so a corrected input is a deny.
"""

from __future__ import annotations

import json

from workers.bridges.hooks.exchange import say
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.hooks.steps import HookAnswer, decided, input_of, text_of
from workers.bridges.hooks.tool_names import named_back, renamed
from workers.bridges.session_ids import id_of, new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from workers.bridges.hooks.tool_names import Tools

AGENT = "qwen"
EVENT = "PreToolUse"
LIMIT_SECONDS = 60.0
"""Qwen's own limit if its settings name none."""

TOOLS: Tools = {
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
}
"""Gemini CLI's tools, which Qwen Code began with, as Qwen names them and their members now, and those it added."""


def main(words: Sequence[str]) -> int:
    """Read one event from stdin, answer it, and return the exit code. An unknown event is blocked."""
    return run(HookSettings.read(words, "opencode", LIMIT_SECONDS))


def run(settings: HookSettings) -> int:
    event, answer = decided(settings, AGENT, (EVENT,), asked)
    if answer is not None:
        said = {"hookEventName": EVENT, **answered(answer, text_of(event, "tool_name"))}
        say(json.dumps({"hookSpecificOutput": said}))
    return 0


def asked(event: dict[str, Any]) -> dict[str, Any]:
    """Return the call's ask. `tool_use_id` is new in each run of the hook, `tool_call_id` is the model's."""
    run_id, call_id = event.get("tool_use_id"), event.get("tool_call_id")
    body: dict[str, Any] = {
        "request_id": id_of(run_id) if isinstance(run_id, str) and run_id else new_id("hook"),
        **renamed(TOOLS, text_of(event, "tool_name"), input_of(event)),
        "metadata": {name: event[name] for name in ("permission_mode",) if name in event},
        "agent": event.get("agent_id") or AGENT,
    }
    if isinstance(call_id, str) and call_id:
        body["tool"] = {"call_id": id_of(call_id), "message_id": id_of(call_id)}
    return body


def answered(answer: HookAnswer, tool: str) -> dict[str, str]:
    """Return the decision for Qwen. `ask` is its own question; without a user to ask, Qwen refuses the call."""
    if answer.updated_input is not None:
        answer.not_told()
        corrected = json.dumps(named_back(TOOLS, tool, answer.updated_input))
        return {"permissionDecision": "deny", "permissionDecisionReason": f"allowed only as: {corrected}"}
    decision = "ask" if answer.behaviour == "agent" else answer.behaviour
    return {"permissionDecision": decision, "permissionDecisionReason": answer.message}
