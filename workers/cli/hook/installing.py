"""`--install`, `--uninstall` and `--status` of a hook: a diff first, and what stood in the file stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from workers.bridges import installing
from workers.bridges.hook_entries import Entries, Settings, with_entries, without_entries

SCOPES: Final = ("user", "project")


class Wanted(NamedTuple):
    """What is to be done to an agent's settings. At most one of the first three."""

    install: bool
    uninstall: bool
    status: bool
    scope: str
    yes: bool

    @property
    def is_anything(self) -> bool:
        return self.install or self.uninstall or self.status


def install_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that become a Wanted, as the argument `wanted`."""

    @wraps(function)
    def run(*, install: bool, uninstall: bool, status: bool, scope: str, yes: bool, **own: Any) -> Any:
        if sum([install, uninstall, status, bool(own.get("settings"))]) > 1:
            raise click.UsageError("say one of: --settings, --install, --uninstall, --status")
        return function(wanted=Wanted(install, uninstall, status, scope, yes), **own)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


_OPTIONS: Final = (
    click.option("--install", is_flag=True, help="Write the hook into the settings, after showing the change."),
    click.option("--uninstall", is_flag=True, help="Take it out again."),
    click.option("--status", is_flag=True, help="Say where it is installed."),
    click.option(
        "--scope",
        type=click.Choice(SCOPES),
        default="user",
        show_default=True,
        help="Whose settings, for --install and --uninstall.",
    ),
    click.option("--yes", is_flag=True, help="Write without asking."),
)


def carry_out(agent: str, wanted: Wanted, entries: Entries, path_of: Callable[[str], Path]) -> int:
    """The exit code: 1 when nobody said yes. `path_of` takes a scope. Raises BridgeError."""
    if wanted.status:
        for scope in SCOPES:
            click.echo(installing.status(path_of(scope), agent))
        return 0

    def changed(settings: Settings) -> Settings:
        return with_entries(settings, agent, entries) if wanted.install else without_entries(settings, agent)

    return write(installing.planned(path_of(wanted.scope), changed), yes=wanted.yes) or 0


def write(change: installing.Change, *, yes: bool) -> int | None:
    """Show a change, ask, and make it; 1 when nobody said yes. Raises BridgeError."""
    if not change.is_needed:
        click.echo(f"{change.path}: nothing to change")
        return None
    click.echo(change.diff())
    if not yes and not click.confirm(f"Write this to {change.path}?", default=False, err=True):
        click.echo("nothing was written", err=True)
        return 1
    installing.apply(change)
    click.echo(f"{change.path}: written")
    return None
