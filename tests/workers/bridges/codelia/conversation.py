"""Conversations with Codelia's runtime, as its program (version 0.1.80) has them; the runtime's part is played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Self

RUN: Final = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"

INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": "init-1",
    "method": "initialize",
    "params": {
        "protocol_version": "0",
        "client": {"name": "codelia-tui", "version": "0.1.80"},
        "ui_capabilities": {"supports_confirm": True, "supports_prompt": True},
    },
}


def line(message: Any) -> str:
    return json.dumps(message, separators=(",", ":"))


def run_start(session: str) -> dict[str, Any]:
    params = {"input": {"type": "text", "text": "go"}, "session_id": session}
    return {"jsonrpc": "2.0", "id": "run-1", "method": "run.start", "params": params}


def run_cancel(run_id: str = RUN) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "cancel-1", "method": "run.cancel", "params": {"run_id": run_id}}


def answer(rpc_id: str, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rpc_id, "result": result}


def confirm(rpc_id: str, title: str, message: str, **more: Any) -> dict[str, Any]:
    params = {
        "run_id": RUN,
        "title": title,
        "message": message,
        "confirm_label": "Allow",
        "cancel_label": "Deny",
        "allow_remember": True,
        "allow_reason": True,
    }
    return {"jsonrpc": "2.0", "id": rpc_id, "method": "ui.confirm.request", "params": params | more}


class Conversation:
    """A conversation to replay, in order; `for_host` is the part that a host must receive, byte for byte."""

    def __init__(self) -> None:
        self.entries: list[dict[str, str]] = []
        self.for_host = b""
        self._seq = 0

    def receives(self, message: Any) -> Self:
        self.entries.append({"dir": "to_client", "line": line(message)})
        return self

    def says(self, message: Any, *, held: bool = False) -> Self:
        """A line of the runtime; `held` when the host does not get it."""
        self.entries.append({"dir": "from_client", "line": line(message)})
        if not held:
            self.for_host += line(message).encode() + b"\n"
        return self

    def event(self, kind: str, **members: Any) -> Self:
        self._seq += 1
        params = {"run_id": RUN, "seq": self._seq, "event": {"type": kind, **members}}
        return self.says({"jsonrpc": "2.0", "method": "agent.event", "params": params})

    def status(self, status: str) -> Self:
        params = {"run_id": RUN, "status": status}
        return self.says({"jsonrpc": "2.0", "method": "run.status", "params": params})

    def starts(self, session: str, initialize: Any = INITIALIZE) -> Self:
        self.receives(initialize).says(answer("init-1", protocol_version="0"))
        self.receives(run_start(session)).says(answer("run-1", run_id=RUN))
        return self.status("running")

    def asks(self, rpc_id: str, tool: str, args: dict[str, Any], *, diff: str | None = None) -> Self:
        """A call that needs a confirm: tool_call, preview, ready, awaiting_ui, the question; which the host never sees."""
        call_id = f"call_{rpc_id}"
        self.event("tool_call", tool=tool, args=args, raw_args=line(args), tool_call_id=call_id)
        if diff is not None:
            self.event("permission.preview", tool=tool, tool_call_id=call_id, diff=diff, file_path=args["file_path"])
        self.event("permission.ready", tool=tool, tool_call_id=call_id).status("awaiting_ui")
        title = "Run command?" if "command" in args else "Run tool?"
        return self.says(confirm(rpc_id, title, args.get("command") or f"{tool} {line(args)}"), held=True)

    def answered(self, rpc_id: str, **result: Any) -> Self:
        return self.receives(answer(rpc_id, **result)).status("running")

    def ran(self, rpc_id: str, tool: str, *, is_error: bool = False) -> Self:
        return self.event("tool_result", tool=tool, result="done", tool_call_id=f"call_{rpc_id}", is_error=is_error)

    def ends(self) -> Self:
        return self.status("completed")

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(one) + "\n" for one in self.entries))
        return path
