"""Shared parts of the hook commands: run one by hand, or print the settings that run it fast."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from workers.bridges.hook_entries import SHARED_SCOPE, Entries, own_line, rules_word, shared_line
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.options import BridgeOptions


def limit_option(seconds: float) -> Callable[[Any], Any]:
    """Add `--limit`, the agent's own, with its default."""
    return click.option(
        "--limit",
        type=click.FloatRange(1, 86400),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help="The agent's own limit for the hook; a moment before it the answer is `still pending, ask again`.",
    )


def settings_option(file: str) -> Callable[[Any], Any]:
    return click.option("--settings", is_flag=True, help=f"Print what belongs in `{file}`, and ask nothing.")


def run_hook(run: Callable[[HookSettings], int], settings: HookSettings, options: BridgeOptions, limit: float) -> int:
    """Run a hook and return its exit code: 2 blocks the call, as does every failure."""
    settings.session, settings.project, settings.rules = options.session, options.project, options.rules
    settings.attended, settings.unattended = options.attended, options.unattended
    settings.profile = options.profile
    settings.on_unreachable, settings.grace, settings.limit = options.on_unreachable, options.grace, limit
    try:
        return run(settings)
    except Exception as error:  # noqa: BLE001 - any failure must block the call
        sys.stderr.write(f"permission-ledger: the hook failed, so the tool does not run: {error}\n")
        return 2


def hook_line(agent: str, options: BridgeOptions, limit: float, scope: str) -> str:
    """Return the line for an agent's settings of a scope. Raises BridgeError."""
    words = ["--on-unreachable", options.on_unreachable, "--limit", f"{limit:g}"]
    for name, value in (("--session", options.session), ("--project", options.project)):
        words += [] if value is None else [name, value]
    words += [word for name, text in options.deadlines.items() for word in (f"--{name}", text)]
    words += [] if options.rules is None else ["--rules", rules_word(options.rules, scope)]
    words += [] if options.profile is None else ["--profile", options.profile]
    words += ["--grace", f"{options.grace:g}"]
    if scope == SHARED_SCOPE:
        return shared_line(agent, words, opens=options.on_unreachable == "agent")
    return own_line(agent, words)


def entries_of(events: Sequence[str], hook: Mapping[str, Any], matcher: str) -> dict[str, list[Any]]:
    """Return the hook at each event, in the form of settings."""
    return {event: [{"matcher": matcher, "hooks": [dict(hook)]}] for event in events}


def print_settings(entries: Entries) -> None:
    """Print the member `hooks` of settings with these entries."""
    click.echo(json.dumps({"hooks": entries}, indent=2))
