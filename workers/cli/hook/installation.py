"""`--install`, `--uninstall` and `--status` of a hook: a diff first; everything else in the file stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from workers.bridges import settings_file
from workers.bridges.hook_entries import Entries
from workers.bridges.settings_file import SettingsChange

SCOPES: Final = ("user", "project")


class InstallOptions(NamedTuple):
    """The change of an agent's settings. At most one of the first three is set."""

    install: bool
    uninstall: bool
    status: bool
    scope: str
    yes: bool

    @property
    def is_anything(self) -> bool:
        return self.install or self.uninstall or self.status


def install_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options as the argument `wanted`, an InstallOptions."""

    @wraps(function)
    def run(*, install: bool, uninstall: bool, status: bool, scope: str, yes: bool, **own: Any) -> Any:
        if sum([install, uninstall, status, bool(own.get("settings"))]) > 1:
            raise click.UsageError("give one of: --settings, --install, --uninstall, --status")
        return function(wanted=InstallOptions(install, uninstall, status, scope, yes), **own)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


_OPTIONS: Final = (
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


def carry_out(
    agent: str,
    wanted: InstallOptions,
    entries: Entries,
    path_of: Callable[[str], Path],
    *,
    comments: bool = False,
    left_behind: Callable[[Path], list[SettingsChange]] = lambda _: [],
) -> int:
    """Change the settings and return the exit code: 1 without consent. `path_of` takes a scope. Raises BridgeError.

    `comments`: the agent accepts comments in its settings. `left_behind`: the entries in other files that uninstalling
    removes.
    """
    if wanted.status:
        for scope in SCOPES:
            click.echo(settings_file.status(path_of(scope), agent))
        return 0
    path = path_of(wanted.scope)
    others = left_behind(path) if wanted.uninstall else []
    change = settings_file.planned(path, agent, entries if wanted.install else None, comments=comments)
    return write(change, *others, yes=wanted.yes) or 0


def write(*changes: SettingsChange, yes: bool) -> int | None:
    """Show changes of files, ask once, and make them; 1 without consent. Raises BridgeError."""
    needed = [change for change in changes if change.is_needed]
    if not needed:
        click.echo(f"{changes[0].path}: nothing to change")
        return None
    for change in needed:
        click.echo(change.diff())
    names = " and ".join(str(change.path) for change in needed)
    if not yes and not click.confirm(f"Write this to {names}?", default=False, err=True):
        click.echo("nothing was written", err=True)
        return 1
    for change in needed:
        settings_file.apply(change)
        click.echo(f"{change.path}: {'removed' if change.after is None else 'written'}")
    return None
