"""`hook codex`: to try it by hand, and for the settings that run it fast."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from workers.bridges.codex.trust import forgetting, trust_hooks, trust_of
from workers.bridges.hook_entries import Entries
from workers.bridges.hooks import codex as hook
from workers.bridges.hooks.settings import LIMIT_SECONDS, HookSettings
from workers.bridges.options import BridgeOptions, check_rules
from workers.bridges.settings_file import SettingsChange, installed_in
from workers.cli.bridge.base import bridge_command
from workers.cli.hook.hook_run import entries_of, hook_line, limit_option, print_settings, run_hook, settings_option
from workers.cli.hook.installation import SCOPES, InstallOptions, carry_out, install_options
from workers.transport.errors import BridgeError

UNTRUSTED: Final = "Codex leaves it out until it is trusted, and says nothing: `/hooks` in Codex, or --install --trust"


@bridge_command(
    "codex",
    dialect="opencode",
    examples=(
        "permission-ledger hook codex --install --trust",
        "permission-ledger hook codex --install --event PreToolUse --rules opencode.json",
        "permission-ledger hook codex --status",
        "permission-ledger hook codex --on-unreachable agent",
    ),
)
@limit_option(LIMIT_SECONDS)
@settings_option("~/.codex/hooks.json")
@install_options
@click.option(
    "--trust",
    is_flag=True,
    help="With --install: tell the `codex` on the PATH that the hook is trusted, as `/hooks` there does.",
)
@click.option(
    "--event",
    type=click.Choice(hook.EVENTS),
    default="PermissionRequest",
    show_default=True,
    help="For --settings and --install: what Codex would ask its user, or every call of a tool.",
)
def codex(
    *, options: BridgeOptions, limit: float, settings: bool, event: str, trust: bool, wanted: InstallOptions
) -> int:
    """Answer one hook event of Codex: PermissionRequest or PreToolUse.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    With --install every run of Codex asks, once the hook is trusted there.
    """
    if trust and not wanted.install:
        raise click.UsageError("--trust goes with --install")
    if not (settings or wanted.is_anything):
        return run_hook(hook.run, HookSettings("opencode"), options, limit)
    if settings or wanted.install:
        check_rules(options)
    written = entries(event, options, limit, wanted.scope)
    if settings:
        print_settings(written)
        return 0
    code = carry_out("codex", wanted, written, settings_path, left_behind=_trust_left_behind)
    if code == 0 and wanted.install:
        path = settings_path(wanted.scope)
        if trust:
            trust_hooks(path, Path.cwd(), config_path())
        click.echo(_trust_line(path), err=not trust)
    if wanted.status:
        for path in map(settings_path, SCOPES):
            if installed_in(path, "codex"):
                click.echo(_trust_line(path))
    return code


def entries(event: str, options: BridgeOptions, limit: float, scope: str) -> Entries:
    """Return the hook's entries for the settings of a scope. Raises BridgeError."""
    line = hook_line("codex", options, limit, scope)
    return entries_of([event], {"type": "command", "command": line, "timeout": int(limit)}, "")


def _trust_line(path: Path) -> str:
    """Return one line on Codex's trust in our hooks in a file."""
    try:
        found = set(trust_of(path, Path.cwd()))
    except BridgeError as error:
        return f"{path}: whether Codex trusts it is not known: {error.text}"
    if not found:
        return f"{path}: Codex does not read it here, as in a folder that it does not trust"
    return f"{path}: {'trusted' if found == {'trusted'} else UNTRUSTED}"


def _trust_left_behind(path: Path) -> list[SettingsChange]:
    return [forgetting(config_path(), path)]


def _home() -> Path:
    """Return the folder of Codex's own files."""
    named = os.environ.get("CODEX_HOME")
    return Path(named) if named else Path.home() / ".codex"


def settings_path(scope: str) -> Path:
    """Return the path of Codex's hooks of a scope: `user` or `project`."""
    return (_home() if scope == "user" else Path.cwd() / ".codex") / "hooks.json"


def config_path() -> Path:
    """Return the path of the file with Codex's trust."""
    return _home() / "config.toml"
