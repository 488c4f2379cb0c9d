"""`permission-ledger bridge …`: between an agent and whoever started it."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, Listed

SERVERS = "Beside an agent's server"

COMMANDS: dict[str, Listed] = {
    "opencode": Listed(
        "workers.cli.bridge.opencode:opencode", "Answer the permissions of an OpenCode server.", SERVERS
    ),
}

bridge = LazyGroup(
    COMMANDS,
    name="bridge",
    help="Put the ledger between a real agent and whoever started it; every permission request is judged and recorded.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
