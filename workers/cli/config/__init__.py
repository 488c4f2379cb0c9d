"""`permission-ledger config …`: the settings in force, where each comes from, and trust in a project's file."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, ListedCommand

_SETTINGS = "Settings"

COMMANDS = {
    "show": ListedCommand("workers.cli.config.show:show", "Print each setting, its value and its source.", _SETTINGS),
    "trust": ListedCommand("workers.cli.config.trusting:trust", "Use a project's file, as it is now.", _SETTINGS),
    "untrust": ListedCommand("workers.cli.config.trusting:untrust", "Use a project's file no more.", _SETTINGS),
}

config = LazyGroup(COMMANDS, name="config", help="Show the settings, and trust a project's file.")
