"""The tools and permissions that run shell lines, by their names in lower case."""

from __future__ import annotations

from typing import Final

SHELL_PERMISSIONS: Final = frozenset({"bash", "shell", "run_command", "execute", "terminal"})
"""Permissions whose patterns are shell lines."""

SHELL_TOOLS: Final = SHELL_PERMISSIONS | {
    "sh", "zsh", "powershell", "exec", "exec_command", "local_shell", "run_shell_command", "run", "bashtool",
}  # fmt: skip
"""Tools and permissions that run a shell line."""
