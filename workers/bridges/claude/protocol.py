"""The permissions of Claude Code's control protocol: lines read, answers built. No I/O.

Wire format: betcode.md "Permission Rule Matching", and the further demands of the real client (2.1.197 to 2.1.330): it
refuses an allow without `updatedInput`, so an allow always carries the input that is to run.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from workers.bridges.session_ids import id_of
from workers.bridges.stdio import Message, line_of, text_in
from workers.bridges.tool_calls import CallVerdict, ToolCall

AGENT: Final = "claude-code"
QUESTION: Final = "AskUserQuestion"
PLAN: Final = "ExitPlanMode"
KINDS: Final = {QUESTION: "question", PLAN: "plan"}
"""The tools that ask a person something rather than for permission, with the `kind` in the request's metadata."""

ASKING_MODES: Final = frozenset({"default", "manual", "plan"})
"""The modes in which the client asks about everything that its rules leave open; the first two are one mode."""

_SHOWN: Final = ("title", "description", "blocked_path", "decision_reason", "decision_reason_type", "agent_id")
_TEXT_CHARS_MAX: Final = 4000
_SUGGESTIONS_MAX: Final = 32


class Permission(NamedTuple):
    """A `can_use_tool` request. `tool_use_id` names the call; `control_id` the question about it."""

    control_id: str
    tool_use_id: str
    tool_name: str
    input: dict[str, Any]
    request: Message


def permission_of(message: Message) -> Permission | str:
    """Return the permission that a control request asks for, or the text of what is wrong with it."""
    request = message.get("request")
    if not isinstance(request, dict):
        return "the control request has no `request`"
    name, tool_input, control_id = text_in(request, "tool_name"), request.get("input"), text_in(message, "request_id")
    if control_id is None:
        return "the control request has no `request_id`"
    if name is None:
        return "the control request has no `tool_name`"
    if not isinstance(tool_input, dict):
        return "the control request has no `input`"
    return Permission(control_id, text_in(request, "tool_use_id") or control_id, name, tool_input, request)


def is_permission(message: Message) -> bool:
    request = message.get("request")
    return (
        message.get("type") == "control_request"
        and isinstance(request, dict)
        and request.get("subtype") == "can_use_tool"
    )


def silent_mode(mode: object) -> str | None:
    """Return a mode in which the client decides by itself what another mode would ask; None for a mode that asks."""
    return mode if isinstance(mode, str) and mode not in ASKING_MODES else None


def mode_wanted(message: Message | None) -> tuple[str, str] | None:
    """Return the id and the mode of a host's request for a mode in which the client would not ask; else None."""
    request = None if message is None else message.get("request")
    if not isinstance(request, dict) or request.get("subtype") != "set_permission_mode":
        return None
    mode, control_id = silent_mode(request.get("mode")), message.get("request_id") if message else None
    return None if mode is None else (str(control_id), mode)


def ends_client(line: bytes) -> bool:
    """Return whether the client would exit at this line: no JSON, or a control response without a response."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return True
    return (
        isinstance(found, dict)
        and found.get("type") == "control_response"
        and not isinstance(found.get("response"), dict)
    )


def answered(message: Message | None) -> str | None:
    """Return the id of the request that a control response answers."""
    if message is None or message.get("type") != "control_response" or not isinstance(message.get("response"), dict):
        return None
    control_id = message["response"].get("request_id")
    return control_id if isinstance(control_id, str) else None


def metadata_of(permission: Permission) -> Message:
    """Return the metadata to show beside the request: the client's own texts, cut, and the kind of question."""
    shown: Message = {}
    for name in _SHOWN:
        if value := text_in(permission.request, name):
            shown[name] = value[:_TEXT_CHARS_MAX]
    if permission.tool_name in KINDS:
        shown["kind"] = KINDS[permission.tool_name]
    # Without the model's own text the client repeats the command, cut to fifty characters; that is no description.
    if permission.tool_name == "Bash" and shown.get("description") != permission.input.get("description"):
        shown.pop("description", None)
    return shown


def offered(permission: Permission) -> tuple[str, ...] | None:
    """Return the client's suggestions as grants; None without suggestions, so that the rules choose what to offer.

    Rules that allow become grants. Other suggestions (a mode, a folder) are left to the client's own prompt.
    """
    if permission.tool_name in KINDS:
        return ()
    suggestions = permission.request.get("permission_suggestions")
    if not isinstance(suggestions, list):
        return None
    found = [rule for one in suggestions[:_SUGGESTIONS_MAX] if isinstance(one, dict) for rule in _rules(one)]
    return tuple(dict.fromkeys(found)) or None


def call_of(permission: Permission, *, agent: str, parent: str | None, cwd: str | None) -> ToolCall:
    """Return the call that a permission is asked for, as the ledger is asked."""
    call_id = id_of(permission.tool_use_id)
    return ToolCall(
        request_id=call_id,
        tool_name=permission.tool_name,
        input=permission.input,
        metadata=metadata_of(permission),
        call_id=call_id,
        agent=agent,
        parent=parent,
        cwd=cwd,
        always=offered(permission),
    )


def _rules(suggestion: Message) -> list[str]:
    rules = suggestion.get("rules")
    if suggestion.get("type") != "addRules" or suggestion.get("behavior") != "allow" or not isinstance(rules, list):
        return []
    return [text for rule in rules if isinstance(rule, dict) and (text := rule_text(rule))]


def rule_text(rule: Message) -> str | None:
    """Return `Bash(git push *)` for `{"toolName": "Bash", "ruleContent": "git push *"}`."""
    name, content = text_in(rule, "toolName"), text_in(rule, "ruleContent")
    return f"{name}({content})" if name and content else name


def rule_of(text: str) -> Message:
    """Return the client's rule for a text: the inverse of `rule_text`."""
    name, opened, rest = text.partition("(")
    return {"toolName": name, **({"ruleContent": rest[:-1]} if opened and rest.endswith(")") else {})}


def to_share(verdict: CallVerdict) -> tuple[str, ...]:
    """Return the grants that came with an answer, for a client that is to remember them too.

    None of an answer with bounds or patterns of its own, nor of what follows from another answer: the client asks again.
    """
    row = verdict.row
    if row is None or row.get("reply") not in ("session", "always") or "bounds" in row or row.get("cause"):
        return ()
    return tuple(row["request"]["always"])


def allow(control_id: str, tool_input: Mapping[str, Any], granted: tuple[str, ...] = ()) -> bytes:
    """Build an allow with this input; `granted` are rules that the client remembers for its session."""
    response: Message = {"behavior": "allow", "updatedInput": dict(tool_input)}
    if granted:
        rules = [rule_of(text) for text in granted]
        response["updatedPermissions"] = [
            {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}
        ]
    return _response({"subtype": "success", "request_id": control_id, "response": response})


def deny(control_id: str, message: str, *, interrupt: bool = False) -> bytes:
    """Build a deny with a message for the model. `interrupt` ends the turn, and the client then drops the message."""
    response: Message = {"behavior": "deny", "message": message, **({"interrupt": True} if interrupt else {})}
    return _response({"subtype": "success", "request_id": control_id, "response": response})


def malformed(control_id: str, problem: str) -> bytes:
    """Answer a request that cannot be read, or is refused: the client tells the model, and runs nothing."""
    return _response({"subtype": "error", "request_id": control_id, "error": problem})


def without_ours(message: Message, ours: Collection[str]) -> Message | None:
    """Return an answer to `initialize` without the pending requests of the ledger; None if it holds none of them."""
    response = message.get("response")
    pending = response.get("pending_permission_requests") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(pending, list):
        return None
    kept = [one for one in pending if not (isinstance(one, dict) and one.get("request_id") in ours)]
    if len(kept) == len(pending):
        return None
    return {**message, "response": {**response, "pending_permission_requests": kept}}


def _response(response: Message) -> bytes:
    return line_of({"type": "control_response", "response": response})
