"""`permission-ledger hook …`: what an agent calls before a tool runs."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, Listed

_HOOKS = "Hooks"

COMMANDS = {
    "claude": Listed(
        "workers.cli.hook.claude:claude", "Claude Code: PreToolUse, PermissionRequest, PostToolUse.", _HOOKS
    ),
    "codex": Listed("workers.cli.hook.codex:codex", "Codex: PermissionRequest, PreToolUse.", _HOOKS),
    "gemini": Listed("workers.cli.hook.gemini:gemini", "Gemini CLI: BeforeTool.", _HOOKS),
    "qwen": Listed("workers.cli.hook.qwen:qwen", "Qwen Code: PreToolUse.", _HOOKS),
}

hook = LazyGroup(
    COMMANDS,
    name="hook",
    help="What an agent calls before a tool runs: its JSON on stdin, the answer on stdout.",
)
