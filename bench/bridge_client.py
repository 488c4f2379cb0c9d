"""A client that asks for permission many times, one after the other, and says how long each answer took (ms)."""

from __future__ import annotations

import json
import sys
from time import perf_counter


def main() -> None:
    count = int(sys.argv[1])
    init = {"type": "system", "subtype": "init", "session_id": f"bench-{perf_counter()}", "cwd": "/tmp"}
    sys.stdout.write(json.dumps(init) + "\n")
    times = []
    for number in range(count):
        call = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": f"git status {number}"}}
        message = {
            "type": "control_request",
            "request_id": f"c{number}",
            "request": {**call, "tool_use_id": f"t{number}"},
        }
        since = perf_counter()
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
        answer = json.loads(sys.stdin.readline())
        times.append((perf_counter() - since) * 1000)
        assert answer["response"]["response"]["behavior"] == "allow", answer
    sys.stdout.write(json.dumps({"type": "bench", "ms": times}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
