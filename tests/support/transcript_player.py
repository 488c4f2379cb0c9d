"""Play a recorded client: send its lines in order, and continue after an answer as the recorded answer is now given.

Run as a program with the transcript's path. Lines of a transcript: `{"dir": "from_client" | "to_client", "line": text}`.
Consecutive answers may come in any order. Ends with code 9 when it receives anything else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def play(path: Path) -> int:
    awaited: list[Any] = []
    for text in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(text)
        if entry["dir"] == "to_client":
            awaited.append(json.loads(entry["line"]))
        elif entry["dir"] == "from_client":
            if not received(awaited):
                return 9
            sys.stdout.buffer.write(entry["line"].encode() + b"\n")
            sys.stdout.buffer.flush()
    return 0 if received(awaited) and not sys.stdin.buffer.read() else 9


def received(awaited: list[Any]) -> bool:
    """Read as many lines as are expected; return whether they are those."""
    while awaited:
        line = sys.stdin.buffer.readline()
        said = json.loads(line) if line else None
        if said not in awaited:
            sys.stderr.write(f"said: {line.decode()}awaited: {json.dumps(awaited)}\n")
            return False
        awaited.remove(said)
    return True


if __name__ == "__main__":
    sys.exit(play(Path(sys.argv[1])))
