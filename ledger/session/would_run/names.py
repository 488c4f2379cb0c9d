"""Names of tools and of their members in all supported agents."""

from __future__ import annotations

from typing import Final, Literal

CallKind = Literal["command", "file", "search", "address", "query", "question", "plan", "tool", "patterns"]

Origin = Literal["input", "metadata", "patterns", "always", "request"]
"""The member of the request that a section is from; labels of `input` and `metadata` are the agent's own words."""

SectionKind = Literal[
    "command", "path", "before", "after", "content", "patch", "address", "search", "query", "question", "option", "plan",
    "remark", "member", "rest", "operand", "pattern", "offered", "folder", "asker", "agent", "tool", "permission",
]  # fmt: skip

BEHIND: Final = "behind"
"""The member of a prerequisite's metadata with the call behind it: `{"tool", "input"}`.

For an input that is too large it is `{"tool", "input_digest", "input_bytes"}`."""

SHELL_TOOLS: Final = frozenset(
    {
        "bash", "shell", "sh", "zsh", "powershell", "execute", "exec", "exec_command", "local_shell", "terminal",
        "run_shell_command", "run_command",
    }
)  # fmt: skip
FILE_TOOLS: Final = frozenset(
    {
        "read", "edit", "write", "patch", "multiedit", "apply_patch", "notebookedit", "notebookread", "list", "ls", "lsp",
        "delete", "move", "replace", "read_file", "write_file", "edit_file", "list_directory",
    }
)  # fmt: skip
QUESTION_TOOLS: Final = frozenset({"question", "askuserquestion", "ask_user"})
PLAN_TOOLS: Final = frozenset({"exitplanmode", "exit_plan_mode", "plan_exit", "plan"})
SEARCH_TOOLS: Final = frozenset({"glob", "grep", "search", "grep_search", "search_file_content"})
ADDRESS_TOOLS: Final = frozenset({"webfetch", "web_fetch", "fetch"})
QUERY_TOOLS: Final = frozenset({"websearch", "codesearch", "web_search", "google_web_search"})

PATH_NAMES: Final = ("file_path", "filePath", "filepath", "notebook_path", "path", "abs_path", "dir_path")
PATCH_NAMES: Final = ("patchText", "patch_text", "patch", "diff")
BEFORE_NAMES: Final = ("old_string", "oldString", "oldText")
AFTER_NAMES: Final = ("new_string", "newString", "newText", "new_source")
