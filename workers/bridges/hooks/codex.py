"""Codex's hooks: its JSON in, the ledger's answer out.

PreToolUse runs before every call, PermissionRequest when Codex would ask its user. Codex takes silence, bad JSON and
any exit code but 2 for "no opinion"; so every failure is a deny, or exit code 2. An allow of PreToolUse is silence too:
Codex's own rules and sandbox then apply as usual; PreToolUse cannot lift them.
"""

from __future__ import annotations

import json

from workers.bridges.hooks.exchange import say
from workers.bridges.hooks.question import HookAnswer, decided, input_of, text_of
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.session_ids import id_of, new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

AGENT = "codex"
EVENTS = ("PreToolUse", "PermissionRequest")
NETWORK = "network-access "
"""The start of the description of a call that asks for a network destination."""


def main(_agent: str, words: Sequence[str]) -> int:
    """Read one event from stdin, answer it, and return the exit code. An unknown event is blocked."""
    return run(HookSettings.read(words, "opencode"))


def run(settings: HookSettings) -> int:
    event, answer = decided(settings, AGENT, EVENTS, asked)
    name = event["hook_event_name"]
    said = None if answer is None else permission_answer(answer) if name == "PermissionRequest" else tool_answer(answer)
    if said is not None:
        say(json.dumps({"hookSpecificOutput": {"hookEventName": name, **said}}))
    return 0


def asked(event: dict[str, Any]) -> dict[str, Any]:
    """Return the call's ask under OpenCode's names: bash, apply_patch; others as Codex calls them."""
    call_id = event.get("tool_use_id")
    has_id = isinstance(call_id, str) and call_id != ""
    body: dict[str, Any] = {
        # A model's call ids may repeat in a later turn, for another call.
        "request_id": id_of(f"{call_id}.{event.get('turn_id')}") if has_id else new_id("hook"),
        **judged(text_of(event, "tool_name"), input_of(event)),
        "metadata": {name: event[name] for name in ("hook_event_name", "permission_mode") if name in event},
        "agent": event.get("agent_type") or event.get("agent_id") or AGENT,
    }
    if has_id:
        body["tool"] = {"call_id": id_of(str(call_id)), "message_id": id_of(str(event.get("turn_id") or call_id))}
    return body


def judged(tool: str, tool_input: dict[str, Any]) -> dict[str, Any]:
    """Return the members of the ask that describe the call."""
    command = tool_input.get("command")
    if tool == "Bash":
        about = tool_input.get("description")
        if isinstance(about, str) and about.startswith(NETWORK):
            # Permission for a command does not include a network destination.
            host = about.removeprefix(NETWORK).strip() or "*"
            return {"tool_name": "bash", "input": tool_input, "permission": "network", "patterns": [host]}
        return {"tool_name": "bash", "input": tool_input}
    if tool == "apply_patch" and isinstance(command, str):
        rest = {name: value for name, value in tool_input.items() if name != "command"}
        return {"tool_name": "apply_patch", "input": {**rest, "patchText": command}}
    return {"tool_name": tool, "input": tool_input}


def tool_answer(answer: HookAnswer) -> dict[str, Any] | None:
    """Return PreToolUse's output; None is no opinion."""
    if answer.behaviour == "deny":
        return {"permissionDecision": "deny", "permissionDecisionReason": answer.message}
    if answer.behaviour == "allow" and answer.updated_input is not None:
        corrected = dict(answer.updated_input)
        if "patchText" in corrected:
            corrected["command"] = corrected.pop("patchText")
        return {"permissionDecision": "allow", "updatedInput": corrected}
    return None


def permission_answer(answer: HookAnswer) -> dict[str, Any] | None:
    """Return PermissionRequest's output; None is no opinion, so that Codex asks its own user."""
    if answer.behaviour == "agent":
        return None
    if answer.behaviour == "allow" and answer.updated_input is None:
        return {"decision": {"behavior": "allow"}}
    message = answer.message
    if answer.behaviour == "allow":
        answer.not_told()
        message = f"allowed only as: {json.dumps(answer.updated_input)}"  # Codex accepts no other input here
    return {"decision": {"behavior": "deny", "message": message}}
