"""The permissions of Codelia's user interface protocol: lines read, answers built. No I/O.

A call is announced by the event `tool_call`, then `permission.ready`, then asked about with `ui.confirm.request`
(codelia.md 8), which itself holds texts for a person and nothing that rules could judge.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from workers.bridges.messages import Message, line_of
from workers.bridges.tool_calls import CallVerdict

AGENT: Final = "codelia"
CONFIRM: Final = "ui.confirm.request"
TITLES: Final = {"Run command?": "bash", "Load skill?": "skill_load", "Run tool?": None}
"""The titles of questions about tools, with the tool; other questions (sign-in, log-out) are for the runtime's own
user."""

_PREFIX: Final = "Permission denied: "
_TEXT_CHARS_MAX: Final = 4000


class Confirm(NamedTuple):
    """A `ui.confirm.request` about a tool. `rpc_id` as it was sent, a string or a number."""

    rpc_id: Any
    run_id: str | None
    title: str
    message: str
    may_remember: bool


class CodeliaCall(NamedTuple):
    """A tool call as the runtime's event describes it."""

    call_id: str
    tool: str
    input: dict[str, Any]


def params_of(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def is_confirm(message: Message) -> bool:
    return message.get("method") == CONFIRM and isinstance(message.get("id"), str | int)


def confirm_of(message: Message, *, is_announced: bool) -> Confirm | None:
    """Return the question about a tool in a confirm request; None for any other question.

    After `permission.ready` every confirm request is one, so that no wording bypasses the rules.
    """
    params = params_of(message)
    title, text, run_id = params.get("title"), params.get("message"), params.get("run_id")
    if not is_announced and (title not in TITLES or params.get("allow_reason") is False):
        return None
    return Confirm(
        message["id"],
        run_id if isinstance(run_id, str) and run_id else None,
        title if isinstance(title, str) else "",
        text if isinstance(text, str) else "",
        params.get("allow_remember") is not False,
    )


def call_of(event: Message) -> CodeliaCall | None:
    """Return the call that a `tool_call` event announces."""
    call_id, tool, args = event.get("tool_call_id"), event.get("tool"), event.get("args")
    if isinstance(call_id, str) and call_id and isinstance(tool, str) and tool and isinstance(args, dict):
        return CodeliaCall(call_id, tool, args)
    return None


def guessed(confirm: Confirm) -> tuple[str, dict[str, Any]]:
    """Return tool and input guessed from the text alone: the whole message, so that all of a command is visible."""
    tool = TITLES.get(confirm.title)
    if tool == "bash":
        return tool, {"command": confirm.message}
    if tool is not None:
        return tool, {"name": confirm.message}
    name = confirm.message.split(maxsplit=1)[0] if confirm.message.strip() else "tool"
    return name, {"message": confirm.message}


def metadata_of(confirm: Confirm, preview: Message | None, *, known: bool) -> Message:
    """Return the agent's own texts as metadata for the person who is asked."""
    shown: Message = {"title": confirm.title[:_TEXT_CHARS_MAX], "message": confirm.message[:_TEXT_CHARS_MAX]}
    if not known:
        shown["judged_by"] = "the words of the question alone: the agent told nothing of the call"
    for name in ("diff", "summary", "file_path"):
        text = (preview or {}).get(name)
        if isinstance(text, str) and text:
            shown[name] = text[:_TEXT_CHARS_MAX]
    return shown


def answer(confirm: Confirm, verdict: CallVerdict, *, shares_grants: bool) -> bytes:
    """Build `{ok, remember?, reason?}`. Codelia ends its turn at a "no" without a reason, and else goes on."""
    result: Message = {"ok": verdict.behaviour == "allow"}
    row = verdict.row or {}
    if verdict.behaviour != "allow":
        if not verdict.stops_agent:
            result["reason"] = _reason(verdict)
    elif verdict.updated_input is not None:
        tried = json.dumps(verdict.updated_input, ensure_ascii=False)
        result = {"ok": False, "reason": f"not allowed as it is; call again with this input, which is allowed: {tried}"}
    elif shares_grants and confirm.may_remember and _is_shared(row):
        result["remember"] = True
    return line_of({"jsonrpc": "2.0", "id": confirm.rpc_id, "result": result})


def _is_shared(row: Message) -> bool:
    """Return whether the client may remember an answer: not one with bounds or patterns of its own, nor a release."""
    is_whole = "bounds" not in row and not row.get("cause")
    return row.get("reply") == "always" and bool(row["request"]["always"]) and is_whole


def _reason(verdict: CallVerdict) -> str:
    feedback = (verdict.row or {}).get("feedback")
    if isinstance(feedback, str) and feedback:
        return feedback
    # The runtime adds that prefix itself.
    return verdict.message.removeprefix(_PREFIX).strip() or f"the request was {verdict.outcome or 'denied'}"


def refusal(rpc_id: Any, reason: str | None = None) -> bytes:
    """Build a "no"; without a reason the runtime's turn ends."""
    return line_of({"jsonrpc": "2.0", "id": rpc_id, "result": {"ok": False, **({"reason": reason} if reason else {})}})


def with_confirm(message: Message) -> Message:
    """Return the host's `initialize` with support for confirm requests: the bridge answers them."""
    params = params_of(message)
    said = params.get("ui_capabilities")
    capabilities = {**(said if isinstance(said, dict) else {}), "supports_confirm": True}
    return {**message, "params": {**params, "ui_capabilities": capabilities}}
