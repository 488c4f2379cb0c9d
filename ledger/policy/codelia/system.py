"""The built-in allow rules of Codelia (codelia.md 7.1 and 7.2), as a layer below all others."""

from __future__ import annotations

from typing import Final, Literal

from ledger.core.policy import Layer

CodeliaEdition = Literal["codelia.md", "current"]

_SPEC_TOOLS: Final = ["read", "grep", "glob_search", "todo_read", "todo_write", "tool_output_cache", "tool_output_cache_grep", "agents_resolve", "skill_search", "skill_load", "done"]  # fmt: skip
# `shell_stdin_write` is on the program's list and left out here: it types commands into a running shell unseen.
_CURRENT_TOOLS: Final = ["read", "read_line", "view_image", "todo_read", "todo_new", "todo_append", "todo_patch", "todo_clear", "tool_output_cache", "tool_output_cache_line", "tool_output_cache_grep", "agents_resolve", "skill_search", "skill_load", "shell_list", "shell_status", "shell_logs", "shell_wait", "shell_result", "shell_cancel", "lane_list", "lane_status", "done"]  # fmt: skip
_COMMANDS: Final = (
    *(
        "pwd",
        "ls",
        "rg",
        "grep",
        "find",
        "sort",
        "cat",
        "head",
        "tail",
        "wc",
        "stat",
        "file",
        "uname",
        "whoami",
        "date",
    ),
    *("git status", "git diff", "git show", "git log", "git rev-parse", "git ls-files", "git grep"),
)
_TOOLS: Final[dict[CodeliaEdition, list[str]]] = {"codelia.md": _SPEC_TOOLS, "current": _CURRENT_TOOLS}


def system_layer(edition: CodeliaEdition = "codelia.md") -> Layer:
    """Return the built-in layer: of the specification, or of the current program without its one dangerous entry."""
    allow = [{"tool": tool} for tool in _TOOLS[edition]]
    allow += [{"tool": "bash", "command": command} for command in _COMMANDS]
    return Layer("system", config={"version": 1, "permissions": {"allow": allow}})
