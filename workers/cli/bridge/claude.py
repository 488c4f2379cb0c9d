"""`bridge claude`: around a command that starts Claude Code, or as hooks in its settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from workers.bridges import settings_file
from workers.bridges.claude import hook_settings
from workers.bridges.claude.bridge import ClaudeBridge, asking, wrap
from workers.bridges.hook_entries import SHARED_SCOPE, rules_word
from workers.bridges.options import BridgeOptions, check_rules
from workers.bridges.startup import announce_alone, run_bridge
from workers.cli.bridge.base import bridge_command
from workers.cli.hook.installation import write
from workers.transport.errors import BridgeError
from workers.transport.gateway_client import GatewayClient

SCOPES = ("user", "project", "local")

NOT_ASKED = {
    "PreToolUse": "PreToolUse alone: what no rule decides waits in the inbox; nobody at the terminal is asked",
    "PermissionRequest": "PermissionRequest alone: what Claude Code's own rules or its mode allow is not asked about. "
    "In mode `auto`, in which 2.1.330 starts at a terminal, that is every call; and `claude -p` asks nobody",
}
"""The calls that a way of asking leaves out, for the one who installs it."""


@bridge_command(
    "claude",
    dialect="claude",
    other_dialects=("betcode",),
    examples=(
        "permission-ledger bridge claude -- claude -p --input-format stream-json --output-format stream-json --verbose",
        "permission-ledger bridge claude --rules .claude/settings.json -- claude",
        "permission-ledger bridge claude --dialect betcode --rules permissions.json -- claude",
        "permission-ledger bridge claude --install --scope project",
        "permission-ledger bridge claude --install --event PreToolUse",
        "permission-ledger bridge claude --status",
    ),
    context_settings={"ignore_unknown_options": False},
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
@click.option("--interrupt", is_flag=True, help="A rejection that should stop the agent also ends its turn.")
@click.option("--share-grants", is_flag=True, help="Tell the client what was granted; it then asks no more, nor do we.")
@click.option(
    "--prompt-tool", is_flag=True, help="Be the MCP server for `--permission-prompt-tool mcp__ledger__approve`."
)
@click.option("--install", is_flag=True, help="Write our hooks into Claude Code's settings, after showing the change.")
@click.option("--uninstall", is_flag=True, help="Remove them.")
@click.option("--status", is_flag=True, help="Print where they are installed.")
@click.option(
    "--scope", type=click.Choice(SCOPES), default="user", show_default=True, help="Whose settings, for --install."
)
@click.option(
    "--require-asking",
    is_flag=True,
    help="With a COMMAND: start it in a mode in which Claude Code asks, and refuse every other mode.",
)
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option(
    "--event",
    type=click.Choice(hook_settings.WAYS),
    default=hook_settings.BOTH,
    show_default=True,
    help="The calls that the hooks ask about: every call, at the terminal and in the inbox at once; every call, in the inbox alone "
    "(PreToolUse); or only what Claude Code would ask its user (PermissionRequest).",
)
def claude(
    *,
    options: BridgeOptions,
    command: Sequence[str],
    interrupt: bool,
    share_grants: bool,
    prompt_tool: bool,
    install: bool,
    uninstall: bool,
    status: bool,
    scope: str,
    yes: bool,
    event: str,
    require_asking: bool,
) -> int | None:
    """Put the ledger between Claude Code and whoever started it.

    With a COMMAND that speaks stream-json on stdio (an editor's, the SDK's) we stand in between and answer its
    permission requests; any other command, the terminal included, gets hooks of ours for this run. With --install
    every run of Claude Code does.
    """
    if sum([install, uninstall, status, prompt_tool, bool(command)]) != 1:
        raise click.UsageError("give one of: -- COMMAND, --prompt-tool, --install, --uninstall, --status")
    if require_asking and not command:
        raise click.UsageError("--require-asking goes with a COMMAND; hooks ask in every mode (--event both)")
    if prompt_tool:
        _serve_prompt_tool(options)
        return None
    if status:
        for one in SCOPES:
            click.echo(
                settings_file.status(settings_path(one, Path.cwd()), hook_settings.AGENT, hook_settings.wanted_events)
            )
        return None
    if command:
        make = partial(ClaudeBridge, interrupts=interrupt, shares_grants=share_grants, requires_asking=require_asking)
        return _run(asking(command) if require_asking else command, options, event, make)
    path = settings_path(scope, Path.cwd())
    if install:
        check_rules(options)
    shared = scope == SHARED_SCOPE
    entries = hook_settings.hook_settings(hook_words(options, scope), way=event, shared=shared) if install else None
    code = write(settings_file.planned(path, hook_settings.AGENT, entries), yes=yes)
    if install and not code and event in NOT_ASKED:
        click.echo(NOT_ASKED[event], err=True)
    return code


def _run(command: Sequence[str], options: BridgeOptions, event: str, make: Callable[..., ClaudeBridge]) -> int:
    wrapped = wrap(command, hook_words(options), event)

    async def bridged(client: GatewayClient) -> int:
        return await make(client, options).run(wrapped.command)

    try:
        if not wrapped.on_stdio:
            announce_alone(options)
            os.execvp(wrapped.command[0], wrapped.command)  # noqa: S606 - the command is the user's own
        return run_bridge(options, bridged)
    except OSError as error:
        raise BridgeError(
            f"`{wrapped.command[0]}` cannot be started: {(error.strerror or str(error)).lower()}"
        ) from error


def _serve_prompt_tool(options: BridgeOptions) -> None:
    from workers.bridges.claude.prompt_tool import serve  # noqa: PLC0415 - only this needs it

    asyncio.run(serve(options))


def settings_path(scope: str, folder: Path) -> Path:
    """Return the path of Claude Code's settings of a scope: `user`, `project` or `local`."""
    if scope == "user":
        named = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(named) if named else Path.home() / ".claude") / "settings.json"
    return folder / ".claude" / ("settings.local.json" if scope == "local" else "settings.json")


def hook_words(options: BridgeOptions, scope: str = "user") -> list[str]:
    """Return the options to install our hooks with. Raises BridgeError for rules that others would not have."""
    words = ["--on-unreachable", options.on_unreachable]
    dialect = None if options.dialect == BridgeOptions().dialect else options.dialect
    for name, value in (("--session", options.session), ("--project", options.project), ("--dialect", dialect)):
        words += [] if value is None else [name, value]
    words += [word for name, text in options.deadlines.items() for word in (f"--{name}", text)]
    words += [] if options.rules is None else ["--rules", rules_word(options.rules, scope)]
    words += [] if options.profile is None else ["--profile", options.profile]
    return [*words, "--grace", f"{options.grace:g}"]
