"""`hook`: the commands that agents call before a tool runs, tried by hand; and the settings of agents that run them fast."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
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
    command_line,
    hook_settings,
    hook_words,
)
from workers.bridges.hooks import before_tool
from workers.bridges.hooks import claude as claude_hook
from workers.bridges.hooks import codex as codex_hook
from workers.bridges.hooks.settings import LIMIT_SECONDS, HookSettings
from workers.bridges.options import BridgeOptions, check_rules
from workers.bridges.settings_file import SettingsChange, installed_in
from workers.cli.bridge_options import bridge_command
from workers.cli.lazy import LazyGroup
from workers.cli.options import adding
from workers.transport.place import BridgeError

SCOPES: Final = ("user", "project")
_MILLISECONDS: Final = 1000
UNTRUSTED: Final = "Codex leaves it out until it is trusted, and says nothing: `/hooks` in Codex, or --install --trust"


class HookedAgent(NamedTuple):
    """An agent whose settings hold a hook of ours. `path` takes a scope; `entries` options, the agent's limit and a scope.

    `takes_comments`: it accepts comments in its settings. `left_behind`: the entries in other files that uninstalling
    from a path removes.
    """

    name: str
    path: Callable[[str], Path]
    entries: Callable[[BridgeOptions, float, str], Entries]
    takes_comments: bool = False
    left_behind: Callable[[Path], list[SettingsChange]] = lambda _: []


def claude_settings(scope: str) -> Path:
    """Return the path of Claude Code's settings of a scope: `user`, `project` or `local`."""
    if scope == "user":
        named = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(named) if named else Path.home() / ".claude") / "settings.json"
    return Path.cwd() / ".claude" / ("settings.local.json" if scope == "local" else "settings.json")


def _codex_home() -> Path:
    named = os.environ.get("CODEX_HOME")
    return Path(named) if named else Path.home() / ".codex"


def codex_settings(scope: str) -> Path:
    """Return the path of Codex's hooks of a scope: `user` or `project`."""
    return (_codex_home() if scope == "user" else Path.cwd() / ".codex") / "hooks.json"


def gemini_settings(scope: str) -> Path:
    """Return the path of Gemini CLI's settings of a scope: `user` or `project`."""
    named = os.environ.get("GEMINI_CLI_HOME")
    home = Path(named) if named else Path.home()
    return (home if scope == "user" else Path.cwd()) / ".gemini" / "settings.json"


def qwen_settings(scope: str) -> Path:
    """Return the path of Qwen Code's settings of a scope: `user` or `project`."""
    if scope == "project":
        return Path.cwd() / ".qwen" / "settings.json"
    named = os.environ.get("QWEN_HOME")
    return (Path(named).expanduser() if named else Path.home() / ".qwen") / "settings.json"


def claude_entries(options: BridgeOptions, _limit: float, scope: str, *, way: str = BOTH) -> Entries:
    return hook_settings(hook_words(options, scope), way=way, shared=scope == SHARED_SCOPE)


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

    return [forgetting(_codex_config(), path)]


def _codex_config() -> Path:
    return _codex_home() / "config.toml"


CLAUDE: Final = HookedAgent(AGENT, claude_settings, claude_entries)
CODEX: Final = HookedAgent("codex", codex_settings, codex_entries, left_behind=_codex_left_behind)
GEMINI: Final = HookedAgent("gemini", gemini_settings, partial(_before_tool_entries, "gemini"), takes_comments=True)
QWEN: Final = HookedAgent("qwen", qwen_settings, partial(_before_tool_entries, "qwen"), takes_comments=True)


class HookOptions(NamedTuple):
    """The options of a hook's command. At most one of `settings`, `install`, `uninstall` and `status` is set."""

    limit: float
    settings: bool
    install: bool
    uninstall: bool
    status: bool
    scope: str
    yes: bool


def _limit_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--limit",
        type=click.FloatRange(1, 86400),
        default=LIMIT_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="The agent's own limit for the hook; a moment before it the answer is `still pending, ask again`.",
    )(function)


def hook_options(file: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options as the argument `wanted`, a HookOptions; `file` is the agent's settings."""
    options = (
        _limit_option,
        click.option("--settings", is_flag=True, help=f"Print what belongs in `{file}`, and ask nothing."),
        click.option("--install", is_flag=True, help="Write the hook into the settings, after showing the change."),
        click.option("--uninstall", is_flag=True, help="Remove it."),
        click.option("--status", is_flag=True, help="Print where it is installed."),
        click.option(
            "--scope",
            type=click.Choice(SCOPES),
            default="user",
            show_default=True,
            help="Whose settings, for --install and --uninstall.",
        ),
        click.option("--yes", is_flag=True, help="Write without asking."),
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(**typed: Any) -> Any:
            wanted = HookOptions(**{name: typed.pop(name) for name in HookOptions._fields})
            if sum([wanted.settings, wanted.install, wanted.uninstall, wanted.status]) > 1:
                raise click.UsageError("give one of: --settings, --install, --uninstall, --status")
            return function(wanted=wanted, **typed)

        return adding(*options)(run)

    return decorate


def _answer(run: Callable[[HookSettings], int], options: BridgeOptions, limit: float, *, hands_on: bool = False) -> int:
    """Answer one event and return the exit code: 2 blocks the call, as does every failure."""
    settings = HookSettings(options.dialect, limit)
    settings.hands_on = hands_on
    for name in ("session", "project", "rules", "attended", "unattended", "profile", "on_unreachable", "grace"):
        setattr(settings, name, getattr(options, name))
    try:
        return run(settings)
    except Exception as error:  # noqa: BLE001 - any failure must block the call
        sys.stderr.write(f"permission-ledger: the hook failed, so the tool does not run: {error}\n")
        return 2


def _carry_out(
    agent: HookedAgent, run: Callable[[HookSettings], int], options: BridgeOptions, wanted: HookOptions
) -> int:
    """Answer one event, print the settings, or change them; return the exit code. Raises BridgeError."""
    if not (wanted.settings or wanted.install or wanted.uninstall or wanted.status):
        return _answer(run, options, wanted.limit)
    if wanted.settings or wanted.install:
        check_rules(options)
    entries = agent.entries(options, wanted.limit, wanted.scope)
    if wanted.settings:
        click.echo(json.dumps({"hooks": entries}, indent=2))
        return 0
    if wanted.status:
        for scope in SCOPES:
            click.echo(settings_file.status(agent.path(scope), agent.name))
        return 0
    return install(agent, wanted.scope, entries if wanted.install else None, yes=wanted.yes)


def install(agent: HookedAgent, scope: str, entries: Entries | None, *, yes: bool) -> int:
    """Write a hook into the settings, or remove it (`entries` None): a diff first; everything else in the file stays.

    Return the exit code: 1 without consent. Raises BridgeError.
    """
    path = agent.path(scope)
    others = agent.left_behind(path) if entries is None else []
    changes = [settings_file.planned(path, agent.name, entries, comments=agent.takes_comments), *others]
    needed = [change for change in changes if change.is_needed]
    if not needed:
        click.echo(f"{path}: nothing to change")
        return 0
    for change in needed:
        click.echo(change.diff())
    names = " and ".join(str(change.path) for change in needed)
    if not yes and not click.confirm(f"Write this to {names}?", default=False, err=True):
        click.echo("nothing was written", err=True)
        return 1
    for change in needed:
        settings_file.apply(change)
        click.echo(f"{change.path}: {'removed' if change.after is None else 'written'}")
    return 0


@bridge_command(
    "claude",
    "permission-ledger hook claude",
    "permission-ledger hook claude --rules .claude/settings.json --on-unreachable agent",
    dialect="claude",
    other_dialects=("betcode",),
)
@_limit_option
@click.option(
    "--event", type=click.Choice([BOTH]), help="As `bridge claude --install` writes it: the terminal is asked too."
)
def claude(*, options: BridgeOptions, limit: float, event: str | None) -> int:
    """Answer one hook event of Claude Code: a call that is asked about, one that ran, or the end of a turn or session.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    """
    return _answer(claude_hook.run, options, limit, hands_on=event == BOTH)


@bridge_command(
    "codex",
    "permission-ledger hook codex --install --trust",
    "permission-ledger hook codex --install --event PreToolUse --rules opencode.json",
    "permission-ledger hook codex --status",
    "permission-ledger hook codex --on-unreachable agent",
    dialect="opencode",
)
@hook_options("~/.codex/hooks.json")
@click.option(
    "--trust",
    is_flag=True,
    help="With --install: tell the `codex` on the PATH that the hook is trusted, as `/hooks` there does.",
)
@click.option(
    "--event",
    type=click.Choice(codex_hook.EVENTS),
    default="PermissionRequest",
    show_default=True,
    help="For --settings and --install: what Codex would ask its user, or every call of a tool.",
)
def codex(*, options: BridgeOptions, wanted: HookOptions, trust: bool, event: str) -> int:
    """Answer one hook event of Codex: PermissionRequest or PreToolUse.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    With --install every run of Codex asks, once the hook is trusted there.
    """
    if trust and not wanted.install:
        raise click.UsageError("--trust goes with --install")
    agent = CODEX._replace(entries=partial(codex_entries, event=event))
    code = _carry_out(agent, codex_hook.run, options, wanted)
    if code == 0 and wanted.install:
        path = codex_settings(wanted.scope)
        if trust:
            from workers.bridges.codex_trust import trust_hooks  # noqa: PLC0415 - slow to import

            trust_hooks(path, Path.cwd(), _codex_config())
        click.echo(_trust_line(path), err=not trust)
    if wanted.status:
        for path in map(codex_settings, SCOPES):
            if installed_in(path, "codex"):
                click.echo(_trust_line(path))
    return code


def _trust_line(path: Path) -> str:
    from workers.bridges.codex_trust import trust_of  # noqa: PLC0415 - slow to import

    try:
        found = set(trust_of(path, Path.cwd()))
    except BridgeError as error:
        return f"{path}: whether Codex trusts it is not known: {error.text}"
    if not found:
        return f"{path}: Codex does not read it here, as in a folder that it does not trust"
    return f"{path}: {'trusted' if found == {'trusted'} else UNTRUSTED}"


@bridge_command(
    "gemini",
    "permission-ledger hook gemini --install",
    "permission-ledger hook gemini --uninstall",
    "permission-ledger hook gemini --install --scope project --rules opencode.json",
    "permission-ledger hook gemini --on-unreachable agent",
    dialect="opencode",
)
@hook_options("~/.gemini/settings.json")
def gemini(*, options: BridgeOptions, wanted: HookOptions) -> int:
    """Answer one hook event of Gemini CLI: BeforeTool.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    With --install every run of Gemini CLI asks.
    """
    return _carry_out(GEMINI, partial(before_tool.run, "gemini"), options, wanted)


@bridge_command(
    "qwen",
    "permission-ledger hook qwen --install",
    "permission-ledger hook qwen --uninstall",
    "permission-ledger hook qwen --install --scope project --rules opencode.json",
    "permission-ledger hook qwen --on-unreachable agent",
    dialect="opencode",
)
@hook_options("~/.qwen/settings.json")
def qwen(*, options: BridgeOptions, wanted: HookOptions) -> int:
    """Answer one hook event of Qwen Code: PreToolUse.

    Its JSON comes on stdin, the answer goes to stdout. Whatever fails is a deny, or exit code 2, which blocks the call.
    With --install every run of Qwen Code asks.
    """
    return _carry_out(QWEN, partial(before_tool.run, "qwen"), options, wanted)


_HOOKS: Final = "Hooks"
COMMANDS: Final = {
    "claude": ("workers.cli.hook:claude", "Claude Code: PreToolUse, PermissionRequest, PostToolUse.", _HOOKS),
    "codex": ("workers.cli.hook:codex", "Codex: PermissionRequest, PreToolUse.", _HOOKS),
    "gemini": ("workers.cli.hook:gemini", "Gemini CLI: BeforeTool.", _HOOKS),
    "qwen": ("workers.cli.hook:qwen", "Qwen Code: PreToolUse.", _HOOKS),
}

hook = LazyGroup(
    COMMANDS,
    name="hook",
    help="Answer one hook event of an agent: its JSON on stdin, the answer on stdout.",
)
