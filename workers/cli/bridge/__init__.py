"""`permission-ledger bridge …`: between an agent and whoever started it."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, ListedCommand

_AGENTS = "Agents"

COMMANDS = {
    "claude": ListedCommand(
        "workers.cli.bridge.claude:claude", "Claude Code: wrapped, or by hooks in its settings.", _AGENTS
    ),
    "codelia": ListedCommand(
        "workers.cli.bridge.codelia:codelia", "Codelia: between its interface and its runtime.", _AGENTS
    ),
    "acp": ListedCommand(
        "workers.cli.bridge.racing:acp", "Any agent that speaks ACP: Gemini CLI, OpenCode and others.", _AGENTS
    ),
    "codex": ListedCommand("workers.cli.bridge.racing:codex", "Codex, by its app-server.", _AGENTS),
    "opencode": ListedCommand(
        "workers.cli.bridge.opencode:opencode", "OpenCode: beside its server, or in front.", _AGENTS
    ),
}

bridge = LazyGroup(
    COMMANDS,
    name="bridge",
    help="Put the ledger between a real agent and whoever started it; every permission request is judged and recorded.",
)
