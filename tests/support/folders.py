"""A project in a real folder, with links that lead out of it, and calls that touch them in every dialect's form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

LINKS: Final = {
    "innocent.txt": ".env",
    "out": "../outside",
    "deep/etc": "/etc",
    "deep/up": "..",
    "loop": "loop",
    "gone": "missing/file",
    "chain": "out",
}
"""Links of the project: name and target."""

LINES: Final = (
    "git status",
    "cat innocent.txt",
    "cat out/key && git push",
    "cd out && cat key",
    "cd chain/sub && ls",
    "cd src && git log",
    "rm -rf deep/etc/x",
    "rm deep/up/../a.ts",
    "echo a > out/new",
    "echo a > src/new.ts",
    "cat ~/notes.txt",
    "cat /etc/passwd",
    "cat loop gone",
    "python src/run.py",
    "cp a.ts out/",
    "ls deep/../out/../outside",
    "make && ./out/run.sh",
    "sed -i s/a/b/ innocent.txt",
    "cat data/gateway.json",
)
PATHS: Final = (
    "a.ts", ".env", "innocent.txt", "out/key", "chain/key", "src/../.env", "deep/up/.env", "deep/etc/passwd", "loop",
    "gone", "missing", "~/notes.txt", "/etc/passwd", "out", "src", "../outside/key", "out/../outside/key", ".git/config",
    "/proc/self/cwd/.env", "data/gateway-token",
)  # fmt: skip
_UPPER: Final = ("betcode", "claude")


def make_project(base: Path) -> Path:
    """Make the project and what its links lead to, and return its folder."""
    project, outside = base / "project", base / "outside"
    for folder in (project / "src", project / "deep", project / ".git", outside / "sub", base / "home"):
        folder.mkdir(parents=True)
    for file in (project / ".env", project / "a.ts", project / "src" / "run.py", outside / "key"):
        file.write_text("x")
    (base / "home" / "notes.txt").symlink_to(outside / "key")
    for name, target in LINKS.items():
        (project / name).symlink_to(target)
    return project


def shell_call(dialect: str, line: str) -> tuple[str, dict[str, Any]]:
    """Return a call of the dialect's shell."""
    return ("Bash" if dialect in _UPPER else "bash"), {"command": line}


def file_calls(dialect: str, path: str) -> list[tuple[str, dict[str, Any]]]:
    """Return a call of each of the dialect's file tools."""
    if dialect in _UPPER:
        edit = {"file_path": path, "old_string": "a", "new_string": "b"}
        return [("Read", {"file_path": path}), ("Edit", edit), ("Grep", {"pattern": "x", "path": path})]
    member = "path" if dialect == "codelia" else "filePath"
    edit = {member: path, "oldString": "a", "newString": "b"}
    return [("read", {member: path}), ("edit", edit), ("grep", {"pattern": "x", "path": path})]
