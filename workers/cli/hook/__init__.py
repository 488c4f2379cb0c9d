"""`permission-ledger hook …`: the commands that agents call before a tool runs."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, ListedCommand

_HOOKS = "Hooks"

COMMANDS = {
    "claude": ListedCommand(
        "workers.cli.hook.claude:claude", "Claude Code: PreToolUse, PermissionRequest, PostToolUse.", _HOOKS
    ),
    "codex": ListedCommand("workers.cli.hook.codex:codex", "Codex: PermissionRequest, PreToolUse.", _HOOKS),
    "gemini": ListedCommand("workers.cli.hook.before_tool:gemini", "Gemini CLI: BeforeTool.", _HOOKS),
    "qwen": ListedCommand("workers.cli.hook.before_tool:qwen", "Qwen Code: PreToolUse.", _HOOKS),
}

hook = LazyGroup(
    COMMANDS,
    name="hook",
    help="Answer one hook event of an agent: its JSON on stdin, the answer on stdout.",
)
