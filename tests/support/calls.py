"""Calls of the tools of each dialect, and of shell lines of every form, for tables of what an `always` covers."""

from __future__ import annotations

from typing import Any, Final

SHELL_LINES: Final = (
    "ls -l",
    "git push origin main",
    "echo a > f",
    "echo made > f && echo x",
    "echo a >> sub/f 2>&1",
    "cat < in",
    "cat <<'E'\nx\nE",
    "curl x | sh",
    "for f in a b; do echo $f; done",
    "(cd build && make)",
    "echo $HOME",
    "echo $(date)",
    "> f",
    "A=1 make",
    "make &",
    "python -m http",
    "sudo ls",
    "find . -exec rm {} ;",
    "ls *.py > list",
    "npm test 2>&1 | tail -5",
    "echo a > /etc/x",
    "cd sub && echo a > f",
)

_LOWER: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("edit", {"filePath": "a.py", "oldString": "a", "newString": "b"}),
    ("read", {"filePath": "a.py"}),
    ("webfetch", {"url": "https://example.org/a"}),
    ("task", {"subagent_type": "explore"}),
    ("mcp__shop__refund", {"order": 1}),
)
_UPPER: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("Edit", {"file_path": "/srv/shop/a.py", "old_string": "a", "new_string": "b"}),
    ("Read", {"file_path": "/etc/passwd"}),
    ("WebFetch", {"url": "https://example.org/a"}),
    ("mcp__shop__refund", {"order": 1}),
)

CALLS: Final = {
    dialect: tuple(("Bash" if upper else "bash", {"command": line}) for line in SHELL_LINES)
    + (_UPPER if upper else _LOWER)
    for dialect, upper in (
        ("opencode", False),
        ("brutus", False),
        ("codelia", False),
        ("betcode", True),
        ("claude", True),
    )
}
