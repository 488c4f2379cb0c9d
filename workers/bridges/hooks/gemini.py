"""Gemini CLI's BeforeTool hook: its JSON in, the ledger's answer out.

It runs before every call of a tool, with the exact input. Gemini takes any exit code but 0 and 2 for a warning, and
runs the tool; so every failure is a deny, or exit code 2.
"""

from __future__ import annotations

import json

from workers.bridges.hooks.exchange import say
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.hooks.steps import HookAnswer, decided, input_of, text_of
from workers.bridges.hooks.tool_names import named_back, renamed
from workers.bridges.session_ids import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from workers.bridges.hooks.tool_names import Tools

AGENT = "gemini"
EVENT = "BeforeTool"
LIMIT_SECONDS = 60.0
"""Gemini's own limit if its settings name none."""

TOOLS: Tools = {
    "run_shell_command": ("bash", {"dir_path": "workdir"}),
    "write_file": ("write", {"file_path": "filePath"}),
    "replace": ("edit", {"file_path": "filePath"}),
    "read_file": ("read", {"file_path": "filePath"}),
    "list_directory": ("list", {"dir_path": "path"}),
    "glob": ("glob", {"dir_path": "path"}),
    "grep_search": ("grep", {"dir_path": "path"}),
    "search_file_content": ("grep", {"dir_path": "path"}),
    "google_web_search": ("websearch", {}),
}
"""By Gemini's names."""


def main(words: Sequence[str]) -> int:
    """Read one event from stdin, answer it, and return the exit code. An unknown event is blocked."""
    return run(HookSettings.read(words, "opencode", LIMIT_SECONDS))


def run(settings: HookSettings) -> int:
    event, answer = decided(settings, AGENT, (EVENT,), asked)
    said = None if answer is None else answered(answer, text_of(event, "tool_name"), input_of(event))
    if said is not None:
        say(json.dumps(said))
    return 0


def asked(event: dict[str, Any]) -> dict[str, Any]:
    """Return the call's ask. Gemini gives it no id, so each run of the hook is a request of its own."""
    return {
        "request_id": new_id("hook"),
        **judged(text_of(event, "tool_name"), input_of(event)),
        "metadata": {name: event[name] for name in ("mcp_context", "original_request_name") if name in event},
    }


def judged(tool: str, tool_input: dict[str, Any]) -> dict[str, Any]:
    """Return the members of the ask that describe the call."""
    if tool == "web_fetch":
        # The prompt holds the addresses.
        prompt = tool_input.get("prompt")
        about = prompt if isinstance(prompt, str) and prompt else "*"
        return {"tool_name": "webfetch", "input": tool_input, "permission": "webfetch", "patterns": [about]}
    return renamed(TOOLS, tool, tool_input)


def answered(answer: HookAnswer, tool: str, tool_input: dict[str, Any]) -> dict[str, Any] | None:
    """Return Gemini's output; None is no opinion. An allow does not skip the question of Gemini's own rules."""
    if answer.behaviour == "agent":
        return None
    if answer.behaviour == "deny":
        return {"decision": "deny", "reason": answer.message}
    if answer.updated_input is None:
        return {"decision": "allow"}
    corrected = named_back(TOOLS, tool, answer.updated_input)
    if not set(tool_input) <= set(corrected):
        # Gemini merges it into the first input: removed members would still run.
        answer.not_told()
        return {"decision": "deny", "reason": f"allowed only as: {json.dumps(corrected)}"}
    return {"decision": "allow", "hookSpecificOutput": {"hookEventName": EVENT, "tool_input": corrected}}
