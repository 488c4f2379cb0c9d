"""Messages of editors and agents in ACP, for tests."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]

SESSION = "sess_1"
OPTIONS = (
    ("proceed_always", "allow_always"),
    ("proceed_once", "allow_once"),
    ("cancel", "reject_once"),
)
"""As Gemini CLI orders and names them: neither the first nor the name tells what an option means."""


def asks(
    rpc_id: Any, title: str = "git push", *, kind: str = "execute", options: Any = OPTIONS, **call: Any
) -> Message:
    """A permission request of the agent."""
    offered = [{"optionId": option, "name": option, "kind": its_kind} for option, its_kind in options]
    tool_call = {"toolCallId": f"call_{rpc_id}", "title": title, "kind": kind, "status": "pending", **call}
    params = {"sessionId": SESSION, "toolCall": tool_call, "options": offered}
    return {"jsonrpc": "2.0", "id": rpc_id, "method": "session/request_permission", "params": params}


def chosen(rpc_id: Any, option: str) -> Message:
    """An answer with an option."""
    return {"jsonrpc": "2.0", "id": rpc_id, "result": {"outcome": {"outcome": "selected", "optionId": option}}}


def cancelled(rpc_id: Any) -> Message:
    return {"jsonrpc": "2.0", "id": rpc_id, "result": {"outcome": {"outcome": "cancelled"}}}


def rejected(rpc_id: Any, message: str) -> Message:
    """Return the bridge's message to the agent about a rejection."""
    said = chosen(rpc_id, "cancel")
    said["result"]["_meta"] = {"permission-ledger": {"message": message}}
    return said


def cancels() -> Message:
    return {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}


def withdrawn(rpc_id: Any) -> Message:
    return {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": rpc_id}}
