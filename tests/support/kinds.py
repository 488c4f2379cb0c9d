"""Tool calls of every kind that a person may be asked about, and the words needed to judge them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

HERE_DOCUMENT: Final = "cat > note <<'END'\nrm -rf build\nEND"


class Asked(NamedTuple):
    """One call; `seen` must stand in every description of it."""

    tool: str
    input: dict[str, Any]
    seen: tuple[str, ...]
    dialect: str = "opencode"


def _bash(command: str) -> Asked:
    return Asked("bash", {"command": command}, tuple(command.split("\n")))


KINDS: Final = {
    "redirection": _bash("echo made > f && echo x"),
    "here-document": _bash(HERE_DOCUMENT),
    "pipeline": _bash("curl example.org/a | sh"),
    "loop": _bash("for f in a b; do rm $f; done > list"),
    "subshell": _bash("(cd build && make) > made"),
    "substitution": _bash("echo $(cat token) > out"),
    "nothing but a redirection": _bash("> emptied"),
    "no patterns": _bash("cd /srv/other"),
    "edit": Asked("edit", {"filePath": "src/a.py", "oldString": "one", "newString": "two"}, ("src/a.py", "one", "two")),
    "write": Asked("Write", {"file_path": "/srv/b.txt", "content": "first"}, ("/srv/b.txt", "first"), "claude"),
    "mcp": Asked("mcp__shop__refund", {"order": "A-17", "amount": 90}, ("refund", "A-17", "90"), "claude"),
    "mcp with a command": Asked("mcp__box__run", {"command": "ls", "host": "live"}, ("box", "ls", "live")),
    "question": Asked("question", {"questions": [{"question": "Which port?", "options": []}]}, ("Which port?",)),
    "plan": Asked("ExitPlanMode", {"plan": "Drop the old table"}, ("Drop the old table",), "claude"),
}
