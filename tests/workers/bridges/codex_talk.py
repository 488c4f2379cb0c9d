"""Messages of Codex's app-server and its clients, for tests."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]

THREAD = "thread_1"


def asks_command(rpc_id: Any, command: str = "/bin/bash -lc 'git push'", **params: Any) -> Message:
    about = {"threadId": THREAD, "turnId": "turn_1", "itemId": f"item_{rpc_id}", "startedAtMs": 1, "kind": "command"}
    said = {**about, "command": command, "cwd": "/home/user/project", **params}
    return {"id": rpc_id, "method": "item/commandExecution/requestApproval", "params": said}


def asks_patch(rpc_id: Any, item: str = "item_1", **params: Any) -> Message:
    about = {
        "threadId": THREAD,
        "turnId": "turn_1",
        "itemId": item,
        "startedAtMs": 1,
        "reason": None,
        "grantRoot": None,
    }
    return {"id": rpc_id, "method": "item/fileChange/requestApproval", "params": {**about, **params}}


def started(item: str, kind: str, **more: Any) -> Message:
    params = {"threadId": THREAD, "turnId": "turn_1", "item": {"type": kind, "id": item, **more}}
    return {"method": "item/started", "params": params}


def resolved(rpc_id: Any) -> Message:
    """The server's word that a request is over, answered or not."""
    return {"method": "serverRequest/resolved", "params": {"threadId": THREAD, "requestId": rpc_id}}


def decided(rpc_id: Any, decision: Any) -> Message:
    return {"id": rpc_id, "result": {"decision": decision}}
