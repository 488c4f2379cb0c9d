"""A client that asks for permission many times in sequence, and prints the time of each answer (ms).

`python -m bench.bridge_client PROTOCOL COUNT`, behind a bridge: it speaks as Claude Code, an ACP agent, Codex's app-server or
Codelia's runtime do, on stdin and stdout. The time runs from the line that asks, once it is written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

Message = dict[str, Any]

SESSION: Final = f"bench-{perf_counter()}"


def claude(number: int) -> Sequence[Message]:
    call = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": f"git status {number}"}}
    request = {**call, "tool_use_id": f"t{number}"}
    asks = {"type": "control_request", "request_id": f"c{number}", "request": request}
    init = {"type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/tmp"}
    return [asks] if number else [init, asks]


def acp(number: int) -> Sequence[Message]:
    command = f"git status {number}"
    call = {"toolCallId": f"t{number}", "title": command, "kind": "execute", "rawInput": {"command": command}}
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_always", "allow_once", "reject_once")]
    params = {"sessionId": SESSION, "toolCall": call, "options": options}
    return [{"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params}]


def codex(number: int) -> Sequence[Message]:
    about = {"threadId": SESSION, "turnId": "turn", "itemId": f"t{number}", "startedAtMs": 1, "kind": "command"}
    params = {**about, "command": f"/bin/bash -lc 'git status {number}'", "cwd": "/tmp"}
    return [{"id": number, "method": "item/commandExecution/requestApproval", "params": params}]


def codelia(number: int) -> Sequence[Message]:
    command, call_id = f"git status {number}", f"t{number}"
    call = {"type": "tool_call", "tool": "shell", "args": {"command": command}, "tool_call_id": call_id}
    ready = {"type": "permission.ready", "tool": "shell", "tool_call_id": call_id}
    events = [
        {"jsonrpc": "2.0", "method": "agent.event", "params": {"run_id": SESSION, "seq": number, "event": event}}
        for event in (call, ready)
    ]
    params = {"run_id": SESSION, "title": "Run command?", "message": command, "allow_remember": True}
    return [*events, {"jsonrpc": "2.0", "id": f"ui_{number}", "method": "ui.confirm.request", "params": params}]


ASKING: Final[dict[str, Callable[[int], Sequence[Message]]]] = {
    "claude": claude,
    "acp": acp,
    "codex": codex,
    "codelia": codelia,
}
ALLOWS: Final[dict[str, Callable[[Message], bool]]] = {
    "claude": lambda said: bool(said["response"]["response"]["behavior"] == "allow"),
    "acp": lambda said: bool(said["result"]["outcome"]["optionId"] == "allow_once"),
    "codex": lambda said: bool(said["result"]["decision"] == "accept"),
    "codelia": lambda said: bool(said["result"]["ok"]),
}


def main() -> None:
    protocol, count = sys.argv[1], int(sys.argv[2])
    times = []
    for number in range(count):
        *before, asks = ASKING[protocol](number)
        for message in before:
            sys.stdout.write(json.dumps(message) + "\n")
        since = perf_counter()
        sys.stdout.write(json.dumps(asks) + "\n")
        sys.stdout.flush()
        answer = json.loads(sys.stdin.readline())
        times.append((perf_counter() - since) * 1000)
        assert ALLOWS[protocol](answer), answer
    sys.stdout.write(json.dumps({"type": "bench", "ms": times}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
