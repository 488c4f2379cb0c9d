"""`--install`, `--status` and `--uninstall`: one form for all agents whose settings hold a hook of ours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from workers.bridges import settings_file
from workers.bridges.hook_entries import (
    AGENT,
    BOTH,
    SHARED_SCOPE,
    Entries,
    InstallNote,
    command_line,
    hook_settings,
    hook_words,
    token_in,
    url_of_ours,
    wanted_events,
)
from workers.bridges.hooks import before_tool
from workers.bridges.hooks.settings import LIMIT_SECONDS
from workers.bridges.options import BridgeOptions, check_rules
from workers.bridges.settings_file import SettingsChange, installed_in, read_settings
from workers.cli.bridge_options import limit_option
from workers.cli.options import adding
from workers.cli.output import CommandOutput, Exit, talk
from workers.transport.place import BridgeError

SCOPES: Final = ("user", "project")
_MILLISECONDS: Final = 1000
UNTRUSTED: Final = (
    "Codex leaves it out until it is trusted, and says nothing: `/hooks` in Codex, or `bridge codex --install --trust`"
)


class HookedAgent(NamedTuple):
    """An agent whose settings hold a hook of ours. `path` takes a scope; `entries` options, the agent's limit and a scope.

    `takes_comments`: it accepts comments in its settings. `left_behind`: the entries in other files that uninstalling
    from a path removes. `wanted` returns the events that need a hook, given those found; `notes` what else is to be said
    of the hooks in a file.
    """

    name: str
    file: str
    path: Callable[[str], Path]
    entries: Callable[[BridgeOptions, float, str], Entries]
    scopes: tuple[str, ...] = SCOPES
    takes_comments: bool = False
    left_behind: Callable[[Path], list[SettingsChange]] = lambda _: []
    wanted: Callable[[Sequence[str]], Sequence[str]] = tuple
    notes: Callable[[Path], list[InstallNote]] = lambda _: []


def _home(variable: str, folder: str) -> Path:
    """Return the folder of an agent's own settings, which a variable may name."""
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else Path.home() / folder


def claude_settings(scope: str) -> Path:
    if scope == "user":
        return _home("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
    return Path.cwd() / ".claude" / ("settings.local.json" if scope == "local" else "settings.json")


def codex_config() -> Path:
    return _home("CODEX_HOME", ".codex") / "config.toml"


def codex_settings(scope: str) -> Path:
    return (_home("CODEX_HOME", ".codex") if scope == "user" else Path.cwd() / ".codex") / "hooks.json"


def gemini_settings(scope: str) -> Path:
    return (_home("GEMINI_CLI_HOME", "") if scope == "user" else Path.cwd()) / ".gemini" / "settings.json"


def qwen_settings(scope: str) -> Path:
    return (_home("QWEN_HOME", ".qwen") if scope == "user" else Path.cwd() / ".qwen") / "settings.json"


def claude_entries(options: BridgeOptions, limit: float, scope: str, *, way: str = BOTH) -> Entries:
    words = hook_words(options, scope, limit=None if limit == LIMIT_SECONDS else limit)
    return hook_settings(words, limit, way, shared=scope == SHARED_SCOPE)


def codex_entries(options: BridgeOptions, limit: float, scope: str, *, event: str = "PermissionRequest") -> Entries:
    return {event: [{"matcher": "", "hooks": [_entry("codex", options, limit, scope, timeout=int(limit))]}]}


def _before_tool_entries(agent: str, options: BridgeOptions, limit: float, scope: str) -> Entries:
    # Qwen Code reads less than 1000 as seconds, and older versions do not; in milliseconds no limit is that small.
    hook = _entry(agent, options, limit, scope, timeout=int(limit * _MILLISECONDS))
    return {before_tool.EVENTS[agent]: [{"matcher": "*", "hooks": [hook]}]}


def _entry(agent: str, options: BridgeOptions, limit: float, scope: str, *, timeout: int) -> dict[str, Any]:
    words = hook_words(options, scope, agent=agent, limit=limit)
    line = command_line(agent, words, shared=scope == SHARED_SCOPE)
    return {"type": "command", "command": line, "timeout": timeout}


def _codex_left_behind(path: Path) -> list[SettingsChange]:
    from workers.bridges.codex_trust import forgetting  # noqa: PLC0415 - slow to import

    return [forgetting(codex_config(), path)]


def _codex_notes(path: Path) -> list[InstallNote]:
    from workers.bridges.codex_trust import trust_of  # noqa: PLC0415 - slow to import

    try:
        found = set(trust_of(path, Path.cwd()))
    except BridgeError as error:
        return [InstallNote(False, f"whether Codex trusts it is not known: {error.text}")]
    if not found:
        return [InstallNote(False, "Codex does not read it here, as in a folder that it does not trust")]
    return [InstallNote(True, "trusted") if found == {"trusted"} else InstallNote(False, UNTRUSTED)]


def _claude_notes(path: Path) -> list[InstallNote]:
    settings = read_settings(path)
    url = url_of_ours(settings, AGENT)
    if url is None:
        return []
    from workers.cli.http_hook import notes_of  # noqa: PLC0415 - slow to import, and an extra

    return notes_of(url, token_in(settings))


CLAUDE: Final = HookedAgent(
    AGENT,
    "~/.claude/settings.json",
    claude_settings,
    claude_entries,
    (*SCOPES, "local"),
    wanted=wanted_events,
    notes=_claude_notes,
)
CODEX: Final = HookedAgent(
    "codex", "~/.codex/hooks.json", codex_settings, codex_entries, left_behind=_codex_left_behind, notes=_codex_notes
)
GEMINI: Final = HookedAgent(
    "gemini",
    "~/.gemini/settings.json",
    gemini_settings,
    partial(_before_tool_entries, "gemini"),
    takes_comments=True,
)
QWEN: Final = HookedAgent(
    "qwen", "~/.qwen/settings.json", qwen_settings, partial(_before_tool_entries, "qwen"), takes_comments=True
)


class InstallOptions(NamedTuple):
    """The options about an agent's settings. At most one of `settings`, `install`, `uninstall` and `status` is set.

    `scope` None is the usual one.
    """

    limit: float
    settings: bool
    install: bool
    uninstall: bool
    status: bool
    scope: str | None
    yes: bool
    as_json: bool


def install_options(agent: HookedAgent, *, has_command: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options as the argument `wanted`, an InstallOptions.

    `has_command`: the function takes a `command`, which is given instead.
    """
    options = (
        click.option("--install", is_flag=True, help=f"Write our hook into `{agent.file}`, after showing the change."),
        click.option("--uninstall", is_flag=True, help="Remove it."),
        click.option("--status", is_flag=True, help="Print where it is installed, and what it lacks (exit code 11)."),
        click.option("--settings", is_flag=True, help="Print what --install would write, and write nothing."),
        click.option(
            "--scope",
            type=click.Choice(agent.scopes),
            help="Whose settings, for --install and --uninstall (default: user).",
        ),
        limit_option,
        click.option("--yes", is_flag=True, help="Write without asking."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line."),
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(**typed: Any) -> Any:
            wanted = InstallOptions(**{name: typed.pop(name) for name in InstallOptions._fields})
            named = ["--install", "--uninstall", "--status", "--settings"]
            given = [wanted.install, wanted.uninstall, wanted.status, wanted.settings, bool(typed.get("command"))]
            if sum(given) + bool(typed.get("prompt_tool")) != 1:
                raise click.UsageError(f"give one of: {', '.join([*(['-- COMMAND'] if has_command else []), *named])}")
            return function(wanted=wanted, **typed)

        return adding(*options)(run)

    return decorate


def carry_out(
    agent: HookedAgent,
    options: BridgeOptions,
    wanted: InstallOptions,
    *,
    token: str | None = None,
    ready: Callable[[], None] = lambda: None,
    then: Callable[[Path], None] = lambda _: None,
) -> int:
    """Print or change an agent's settings, as the options say; return the exit code. Raises BridgeError.

    `token` is written beside the hook. `ready` is called after the yes to an installation, and `then` after it.
    """
    output = CommandOutput(as_json=wanted.as_json)
    if wanted.status:
        return _status(agent, output)
    scope = wanted.scope or agent.scopes[0]
    entries = None
    if not wanted.uninstall:
        check_rules(options)
        entries = agent.entries(options, wanted.limit, scope)
    if wanted.settings:
        click.echo(json.dumps({"hooks": entries}, indent=2))
        return Exit.DONE
    path = agent.path(scope)
    others = agent.left_behind(path) if entries is None else []
    changes = [settings_file.planned(path, agent.name, entries, comments=agent.takes_comments, token=token), *others]
    needed = [change for change in changes if change.is_needed]
    if not needed:
        output.result({"agent": agent.name, "file": str(path), "diff": None}, f"{path}: nothing to change")
    for change in needed:
        # The token would stay in the terminal's history.
        diff = change.diff() if token is None else change.diff().replace(token, "plt_…")
        output.result({"agent": agent.name, "file": str(change.path), "diff": diff}, *diff.splitlines())
    names = " and ".join(str(change.path) for change in needed)
    if needed and not wanted.yes and not click.confirm(f"Write this to {names}?", default=False, err=True):
        talk("nothing was written")
        return Exit.OUR_FAULT
    if wanted.install:
        ready()
    for change in needed:
        settings_file.apply(change)
        if not output.as_json:
            output.line(f"{change.path}: {'removed' if change.after is None else 'written'}")
    if wanted.install:
        then(path)
        for note in agent.notes(path):
            (output.line if note.ok and not output.as_json else talk)(f"{path}: {note.text}")
    return Exit.DONE


def _status(agent: HookedAgent, output: CommandOutput) -> int:
    """Print one line a scope, and what is to be said of what stands there."""
    is_well = True
    for scope in agent.scopes:
        path = agent.path(scope)
        found = installed_in(path, agent.name)
        missing = [event for event in agent.wanted(found) if event not in found] if found else []
        notes = agent.notes(path) if found else []
        is_well = is_well and not missing and all(note.ok for note in notes)
        line = f"{path}: installed for {', '.join(found)}" if found else f"{path}: not installed"
        row = {"agent": agent.name, "scope": scope, "file": str(path), "events": found, "missing": missing}
        output.result(
            {**row, "notes": [note._asdict() for note in notes]},
            line + (f"; missing: {', '.join(missing)}" if missing else ""),
            *(f"{path}: {note.text}" for note in notes),
        )
    return Exit.DONE if is_well else Exit.FINDINGS
